#include "runtime/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/bytes.h"
#include "graph/op.h"
#include "observe/trace.h"

namespace neap {
namespace {

enum Track : int { kStepTrack = 1, kCallTrack, kTransferTrack, kKernelTrack };

std::string_view name_of(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "update";
}

struct Event {
  std::string name;
  std::string category;
  std::string args;
};

struct Stay {
  Tick lower = 0;
  Tick upper = 0;
  std::int64_t offset = 0;
  Event event;
};

// Who uses each block, by phase: a call that makes something again works for backward.
using Uses = std::array<int, 3>;

std::vector<Uses> uses_of(const Plan& plan, const Graph& graph) {
  std::vector<Uses> out(plan.blocks.size());
  for (const Instruction& in : plan.instructions) {
    if (is_transfer(in.action)) continue;
    const bool is_again = in.action == Action::kRecompute || in.action == Action::kDecode;
    const auto phase = static_cast<std::size_t>(is_again ? Phase::kBackward : graph.at(in.node).phase);
    const auto note = [&](const Operand& o) {
      if (o.block) ++out[o.block.index][phase];
    };
    std::for_each(in.inputs.begin(), in.inputs.end(), note);
    std::for_each(in.outputs.begin(), in.outputs.end(), note);
    note(in.workspace);
  }
  return out;
}

Event call_event(const Instruction& in, const Graph& graph) {
  const Node& node = graph.at(in.node);
  const bool is_again = in.action == Action::kRecompute;
  std::string blocks;
  const auto add = [&](const Operand& o) {
    if (o.block) blocks += fmt::format("{}{}", blocks.empty() ? "" : ",", o.block.index);
  };
  std::for_each(in.inputs.begin(), in.inputs.end(), add);
  std::for_each(in.outputs.begin(), in.outputs.end(), add);
  add(in.workspace);
  return {.name = node.name,
          .category = std::string(is_again ? "recompute" : name_of(node.phase)),
          .args = fmt::format(R"({{"action":"{}","op":{},"layer":{},"blocks":[{}]}})", name(in.action),
                              json_string(node.op->name), json_string(node.layer), blocks)};
}

Event codec_event(const Instruction& in, const Graph& graph) {
  return {.name = fmt::format("{} {}", name(in.action), graph.at(in.tensor).name),
          .category = std::string(name(in.action)),
          .args = fmt::format(R"({{"action":"{}","tensor":{},"level":"{}","bytes":{},"blocks":[{},{}]}})",
                              name(in.action), json_string(graph.at(in.tensor).name), precision::name(in.level),
                              precision::encoded_bytes(in.level, in.elements), in.inputs[0].block.index,
                              in.outputs[0].block.index)};
}

Event wait_event(const Instruction& in, const Plan& plan, const Graph& graph) {
  const bool is_out = in.action == Action::kSpillWait;
  return {.name = fmt::format("wait for {} {}", is_out ? "spill of" : "fetch of",
                              graph.at(plan.slot_tensors[in.slot.index]).name),
          .category = "wait"};
}

Stay stay_of(std::size_t index, const Plan& plan, const Graph& graph, const Uses& uses) {
  const Block& b = plan.blocks[index];
  std::string users;
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    const int count = uses[static_cast<std::size_t>(phase)];
    if (count > 0) users += fmt::format("{}\"{}\":{}", users.empty() ? "" : ",", name_of(phase), count);
  }
  const std::string tensor = b.tensor ? graph.at(b.tensor).name : "";
  return {
      .lower = b.lower,
      .upper = b.upper,
      .offset = b.offset,
      .event = {.name = tensor.empty() ? std::string(name(b.kind)) : tensor,
                .category = fmt::format("arena @{}", human_bytes(b.offset)),
                .args = fmt::format(R"({{"block":{},"offset":{},"bytes":{},"kind":"{}","tensor":{},"users":{{{}}}}})",
                                    index, b.offset, b.bytes, name(b.kind), json_string(tensor), users)}};
}

constexpr std::uint32_t kNoSlot = UINT32_MAX;

std::vector<std::int64_t> live_bytes(const Plan& plan) {
  std::vector<std::int64_t> out(plan.instructions.size() + 1);
  for (const Block& b : plan.blocks) {
    out[std::min<std::size_t>(b.lower, plan.instructions.size())] += b.bytes;
    out[std::min<std::size_t>(b.upper, plan.instructions.size())] -= b.bytes;
  }
  for (std::size_t t = 1; t < out.size(); ++t) out[t] += out[t - 1];
  return out;
}

}  // namespace

struct Tracer::Picture {
  explicit Picture(const Executor& executor) : live(live_bytes(executor.plan())) {
    const Plan& plan = executor.plan();
    const Graph& graph = executor.program().graph;
    for (const Instruction& in : plan.instructions) {
      const bool is_wait = in.action == Action::kSpillWait || in.action == Action::kFetchWait;
      instructions.push_back(is_call(in.action)    ? call_event(in, graph)
                             : is_codec(in.action) ? codec_event(in, graph)
                             : is_wait             ? wait_event(in, plan, graph)
                                                   : Event{});
      const bool begins = in.action == Action::kSpillBegin || in.action == Action::kFetchBegin;
      begun_slots.push_back(begins ? in.slot.index : kNoSlot);
    }
    const std::vector<Uses> uses = uses_of(plan, graph);
    for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
      const bool is_shown = plan.blocks[i].kind != BlockKind::kState && plan.blocks[i].bytes > 0;
      if (is_shown) stays.push_back(stay_of(i, plan, graph, uses[i]));
    }
    for (std::size_t s = 0; s < plan.slots.size(); ++s) {
      slots.push_back({.name = graph.at(plan.slot_tensors[s]).name,
                       .args = fmt::format(R"("tensor":{},"bytes":{},"slot":{})",
                                           json_string(graph.at(plan.slot_tensors[s]).name), plan.slots[s], s)});
    }
  }

  std::vector<Event> instructions;         // without a name: not shown
  std::vector<std::uint32_t> begun_slots;  // that an instruction begins a transfer of; or kNoSlot
  std::vector<Stay> stays;
  std::vector<Event> slots;
  std::vector<std::int64_t> live;  // per instruction
};

struct Tracer::Step {
  std::int64_t number = 0;
  std::shared_ptr<const Picture> picture;
  std::vector<InstructionTime> times;
  std::vector<SlotTimes> transfers;
  std::vector<Activity> activities;  // empty: the device has no log

  std::int64_t begin_ns() const { return activities.empty() ? times.front().begun_ns : activities.front().begun_ns; }
  std::int64_t end_ns() const {
    std::int64_t out = times.back().ended_ns;
    for (const Activity& a : activities) out = std::max(out, a.ended_ns);
    return out;
  }

  void show(Trace& trace) const {
    const std::int64_t end = end_ns();
    trace.span({.track = kStepTrack,
                .begin_ns = begin_ns(),
                .end_ns = end,
                .name = fmt::format("step {}", number),
                .category = "step"},
               busy_args());
    show_calls(trace);
    show_transfers(trace);
    show_kernels(trace);
    for (const Stay& stay : picture->stays) {
      const std::int64_t from = times[stay.lower].begun_ns;
      trace.stay({.track = kCallTrack,
                  .begin_ns = from,
                  .end_ns = std::max(from, stay.upper < times.size() ? times[stay.upper].begun_ns : end),
                  .name = stay.event.name,
                  .category = stay.event.category},
                 stay.offset, stay.event.args);
    }
  }

 private:
  void show_calls(Trace& trace) const {
    std::int64_t shown = -1;
    std::int64_t now = 0;
    for (std::size_t t = 0; t < times.size(); ++t) {
      now = std::max(now, times[t].begun_ns);
      if (picture->live[t] != shown) {
        shown = picture->live[t];
        trace.counter("arena", now, "live bytes", shown);
      }
      const Event& event = picture->instructions[t];
      const bool is_idle = !activities.empty() && times[t].begun_ns == times[t].ended_ns;
      if (event.name.empty() || is_idle) continue;
      trace.span({.track = kCallTrack,
                  .begin_ns = times[t].begun_ns,
                  .end_ns = times[t].ended_ns,
                  .name = event.name,
                  .category = event.category},
                 event.args);
    }
  }

  std::string busy_args() const {
    if (activities.empty()) return {};
    const Busy busy = busy_of(activities);
    return fmt::format(R"({{"link_busy_ms":{:.3f},"compute_busy_ms":{:.3f},"overlap_ms":{:.3f}}})", busy.link_ms,
                       busy.compute_ms, busy.overlap_ms);
  }

  // With a log they are on the same clock as the kernels.
  void show_transfers(Trace& trace) const {
    for (std::size_t s = 0; activities.empty() && s < transfers.size(); ++s) {
      show_transfer(trace, s, "spill", transfers[s].write);
      show_transfer(trace, s, "fetch", transfers[s].read);
    }
    for (const Activity& a : activities) {
      if (!is_on_link(a.kind)) continue;
      const std::uint32_t slot = a.tag < picture->begun_slots.size() ? picture->begun_slots[a.tag] : kNoSlot;
      const bool is_out = a.kind == ActivityKind::kCopyOut;
      if (slot < transfers.size()) {
        const TransferTime& waited = is_out ? transfers[slot].write : transfers[slot].read;
        show_transfer(
            trace, slot, is_out ? "spill" : "fetch",
            {.asked_ns = a.begun_ns, .begun_ns = a.begun_ns, .ended_ns = a.ended_ns, .stalled_ns = waited.stalled_ns});
        continue;
      }
      trace.span({.track = kTransferTrack,
                  .begin_ns = a.begun_ns,
                  .end_ns = a.ended_ns,
                  .name = is_out ? "to the host" : "to the device",
                  .category = "copy"},
                 fmt::format(R"({{"bytes":{}}})", a.bytes));
    }
  }

  // A row a stream.
  void show_kernels(Trace& trace) const {
    for (const Activity& a : activities) {
      if (is_on_link(a.kind)) continue;
      const std::string name = a.kind == ActivityKind::kKernel ? readable_kernel(a.name)
                               : a.kind == ActivityKind::kFill ? "fill"
                                                               : "copy";
      const bool is_known = a.tag < picture->instructions.size();
      trace.span({.track = kKernelTrack + static_cast<int>(a.stream),
                  .begin_ns = a.begun_ns,
                  .end_ns = a.ended_ns,
                  .name = name,
                  .category = "kernel"},
                 fmt::format(R"({{"call":{},"stream":{}}})",
                             json_string(is_known ? picture->instructions[a.tag].name : ""), a.stream));
    }
  }

  void show_transfer(Trace& trace, std::size_t slot, std::string_view what, const TransferTime& time) const {
    if (time.ended_ns == 0) return;
    const Event& event = picture->slots[slot];
    trace.span(
        {.track = kTransferTrack,
         .begin_ns = time.begun_ns,
         .end_ns = time.ended_ns,
         .name = fmt::format("{} {}", what, event.name),
         .category = what},
        fmt::format(R"({{{},"tier":"{}","queued_us":{:.3f},"stalled_us":{:.3f}}})", event.args,
                    transfers[slot].in_ram ? "ram" : "disk", static_cast<double>(time.begun_ns - time.asked_ns) * 1e-3,
                    static_cast<double>(time.stalled_ns) * 1e-3));
  }
};

Tracer::Tracer() = default;
Tracer::~Tracer() = default;

std::string Tracer::before(Executor& executor) {
  if (!executor.times().empty()) return {};
  pictures_[&executor] = std::make_shared<const Picture>(executor);  // one that lay there before is gone
  return executor.record();
}

void Tracer::after(const Executor& executor, std::int64_t step) {
  if (executor.times().empty()) return;
  if (steps_.size() == kSteps) steps_.pop_front();
  Step& added = steps_.emplace_back();
  added.number = step;
  added.picture = pictures_.at(&executor);
  added.times.assign(executor.times().begin(), executor.times().end());
  added.activities.assign(executor.activities().begin(), executor.activities().end());
  if (executor.store() != nullptr) {
    const auto transfers = executor.store()->times();
    added.transfers.assign(transfers.begin(), transfers.end());
  }
}

void Tracer::write(const std::filesystem::path& path) const {
  Trace trace("neap");
  trace.name_track(kStepTrack, "steps");
  trace.name_track(kCallTrack, "calls");
  trace.name_track(kTransferTrack, "transfers");
  std::set<std::uint32_t> streams;
  for (const Step& step : steps_) {
    for (const Activity& a : step.activities) {
      if (!is_on_link(a.kind)) streams.insert(a.stream);
    }
  }
  for (const std::uint32_t stream : streams) {
    trace.name_track(kKernelTrack + static_cast<int>(stream), fmt::format("kernels, stream {}", stream));
  }
  for (const Step& step : steps_) step.show(trace);
  trace.write(path);
}

}  // namespace neap
