#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/bytes.h"
#include "neap/error.h"
#include "plan/pack.h"
#include "plan/plan.h"
#include "plan/storage.h"

namespace neap {
namespace {

// Instructions refer to blocks; calls that storage made superfluous are left out. Ticks stay those of the calls until
// `compact` renumbers them.
class Assembler {
 public:
  Assembler(const Graph& graph, const std::vector<Window>& views, const Costs& costs, const Decisions& decisions,
            const StateLayout* layout)
      : graph_(graph),
        costs_(costs),
        layout_(layout),
        views_(views),
        schedule_(make_schedule(graph, views_, decisions, costs)),
        storage_(assign_storage(graph, schedule_, views_)) {}

  Plan run() {
    plan_.blocks = storage_.blocks;
    for (Tick t = 0; t < schedule_.calls.size(); ++t) {
      if (!storage_.elided[t]) add_instruction(t);
    }
    compact();
    note_homes();
    set_offsets();
    return std::move(plan_);
  }

  Footprint measure(std::int64_t budget) {
    list_blocks();
    const std::size_t end = call_tick_.size();
    std::vector<std::int64_t> change(end + 1);
    std::int64_t base = 0;
    const std::int64_t alignment = schedule_.slots.empty() ? kAlignment : kPage;  // as in set_offsets()
    for (const Block& b : plan_.blocks) {
      if (b.kind == BlockKind::kState) {
        base += b.bytes;
        continue;
      }
      change[std::min<std::size_t>(b.lower, end)] += align_up(b.bytes, alignment);
      change[std::min<std::size_t>(b.upper, end)] -= align_up(b.bytes, alignment);
    }
    Footprint out;
    std::int64_t live = align_up(base, alignment);
    Tick at = 0;
    for (Tick t = 0; t < end; ++t) {
      live += change[t];
      out.excess += std::max<std::int64_t>(0, live - budget);
      if (live > out.bytes) at = t;
      out.bytes = std::max(out.bytes, live);
      out.ms += ms_of(schedule_.calls[call_tick_[t]], schedule_, graph_, costs_);
    }
    if (end == 0) return out;
    for (const Instance& i : schedule_.instances) {
      const bool is_alive = i.lower <= call_tick_[at] && call_tick_[at] < i.upper;
      if (is_alive && graph_.at(i.root).producer) out.fullest.push_back(i.root);
    }
    return out;
  }

 private:
  // Blocks with their lifetimes, and nothing else.
  void list_blocks() {
    plan_.blocks = std::move(storage_.blocks);
    for (Tick t = 0; t < schedule_.calls.size(); ++t) {
      if (storage_.elided[t]) continue;
      add_workspace(t);
      call_tick_.push_back(t);
    }
    compact();
  }

  BlockId add_workspace(Tick t) {
    const Call& call = schedule_.calls[t];
    const std::int64_t scratch = call.node.index < costs_.workspace.size() ? costs_.workspace[call.node.index] : 0;
    if (scratch == 0 || !is_call(call.action)) return {};
    plan_.blocks.push_back({.kind = BlockKind::kWorkspace, .bytes = align_up(scratch), .lower = t, .upper = t + 1});
    return {static_cast<std::uint32_t>(plan_.blocks.size() - 1)};
  }

  Operand operand(std::int32_t instance, TensorId as) const {
    if (instance == kAbsent) return {};
    const Placement& p = storage_.placements[static_cast<std::size_t>(instance)];
    return {.block = {static_cast<std::uint32_t>(p.block)}, .offset = p.offset + views_[as.index].offset};
  }

  void add_instruction(Tick t) {
    const Call& call = schedule_.calls[t];
    if (!is_call(call.action)) return add_move(t);
    const Node& node = graph_.at(call.node);
    Instruction in{.action = call.action, .node = call.node};
    for (std::size_t i = 0; i < call.inputs.size(); ++i) in.inputs.push_back(operand(call.inputs[i], node.inputs[i]));
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      in.outputs.push_back(operand(call.outputs[i], node.outputs[i]));
    }
    in.workspace.block = add_workspace(t);
    plan_.instructions.push_back(std::move(in));
    call_tick_.push_back(t);
  }

  void add_move(Tick t) {
    const Call& call = schedule_.calls[t];
    Instruction in{.action = call.action, .node = call.node};
    if (is_transfer(call.action)) {
      in.slot = {call.slot};
    } else {
      in.tensor = instance_root(call.inputs[0]);
      in.elements = graph_.at(in.tensor).type.elements();
      in.level = schedule_.instances[static_cast<std::size_t>(encoded_of(call))].level;
    }
    for (const std::int32_t i : call.inputs) in.inputs.push_back(operand(i, instance_root(i)));
    for (const std::int32_t i : call.outputs) in.outputs.push_back(operand(i, instance_root(i)));
    plan_.instructions.push_back(std::move(in));
    call_tick_.push_back(t);
  }

  static std::int32_t encoded_of(const Call& call) {
    return call.action == Action::kEncode ? call.outputs[0] : call.inputs[0];
  }

  TensorId instance_root(std::int32_t i) const { return schedule_.instances[static_cast<std::size_t>(i)].root; }

  // Block lifetimes in ticks of instructions instead of calls.
  void compact() {
    const auto first_at_or_after = [&](Tick call) {
      return static_cast<Tick>(std::lower_bound(call_tick_.begin(), call_tick_.end(), call) - call_tick_.begin());
    };
    for (Block& b : plan_.blocks) {
      b.lower = first_at_or_after(b.lower);
      b.upper = std::max(first_at_or_after(b.upper), b.lower + 1);
    }
  }

  void note_homes() {
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].producer || schedule_.current[i] == kAbsent) continue;
      plan_.homes.emplace_back(TensorId{i}, operand(schedule_.current[i], {i}));
    }
    for (const auto& [label, id] : graph_.outputs) {
      plan_.homes.emplace_back(id, operand(schedule_.current[views_[id.index].root.index], id));
    }
  }

  // The offset that the state has already, or the next free one; none: it is packed like everything else.
  std::optional<std::int64_t> state_offset(const Block& block) {
    if (block.kind != BlockKind::kState) return std::nullopt;
    if (layout_ != nullptr) {
      const auto at = layout_->offsets.find(graph_.at(block.tensor).name);
      return at == layout_->offsets.end() ? std::nullopt : std::optional(at->second);
    }
    const std::int64_t offset = plan_.state_bytes;
    plan_.state_bytes += block.bytes;
    return offset;
  }

  void set_offsets() {
    if (layout_ != nullptr) plan_.state_bytes = layout_->bytes;
    plan_.slots = schedule_.slots;
    plan_.slot_tensors = schedule_.slot_tensors;
    // What goes to a disk past the system's cache lies in whole pages.
    const std::int64_t alignment = plan_.slots.empty() ? kAlignment : kPage;
    std::vector<PackItem> items;
    std::vector<std::size_t> which;
    for (std::size_t b = 0; b < plan_.blocks.size(); ++b) {
      Block& block = plan_.blocks[b];
      if (const auto offset = state_offset(block)) {
        block.offset = *offset;
      } else {
        block.bytes = align_up(block.bytes, alignment);
        items.push_back({.lower = block.lower, .upper = block.upper, .size = block.bytes});
        which.push_back(b);
      }
    }
    const std::int64_t base = align_up(plan_.state_bytes, alignment);
    const PackProblem problem{.items = items, .alignment = alignment};
    const Packing packing = costs_.first_fit ? pack_first_fit(problem) : pack(problem);
    for (std::size_t i = 0; i < which.size(); ++i) plan_.blocks[which[i]].offset = base + packing.offsets[i];
    plan_.peak_bytes = base + packing.height;
    plan_.lower_bound_bytes = base + packing.lower_bound;
  }

  const Graph& graph_;
  const Costs& costs_;
  const StateLayout* layout_;
  const std::vector<Window>& views_;
  Schedule schedule_;
  Storage storage_;
  Plan plan_;
  std::vector<Tick> call_tick_;  // per instruction
};

// The tick at which the most bytes are alive.
Tick fullest_tick(const Plan& plan) {
  std::vector<std::int64_t> change(plan.instructions.size() + 1);
  for (const Block& b : plan.blocks) {
    change[b.lower] += b.bytes;
    if (b.upper < change.size()) change[b.upper] -= b.bytes;
  }
  std::int64_t live = 0;
  std::int64_t most = -1;
  Tick at = 0;
  for (Tick t = 0; t < plan.instructions.size(); ++t) {
    live += change[t];
    if (live > most) {
      most = live;
      at = t;
    }
  }
  return at;
}

}  // namespace

std::string_view name(BlockKind kind) {
  switch (kind) {
    case BlockKind::kState: return "state";
    case BlockKind::kInput: return "input";
    case BlockKind::kSaved: return "saved";
    case BlockKind::kTransient: return "transient";
    case BlockKind::kGradient: return "gradient";
    case BlockKind::kWorkspace: return "workspace";
  }
  return "?";
}

std::string_view name(Action action) {
  switch (action) {
    case Action::kRun: return "run";
    case Action::kRecompute: return "recompute";
    case Action::kEncode: return "encode";
    case Action::kDecode: return "decode";
    case Action::kSpillBegin: return "spill-begin";
    case Action::kSpillWait: return "spill-wait";
    case Action::kFetchBegin: return "fetch-begin";
    case Action::kFetchWait: return "fetch-wait";
  }
  return "?";
}

double codec_ms(const CodecCosts& costs, Action action, precision::Level level, std::int64_t elements) {
  const auto& table = action == Action::kEncode ? costs.encode : costs.decode;
  return table[precision::index_of(level)] * static_cast<double>(elements) * 1e-6;
}

StateLayout layout_of(const Plan& plan, const Graph& graph) {
  StateLayout out{.bytes = plan.state_bytes};
  for (const Block& b : plan.blocks) {
    if (b.kind == BlockKind::kState) out.offsets[graph.at(b.tensor).name] = b.offset;
  }
  return out;
}

std::variant<Plan, Infeasible> make_plan(const Graph& graph, const Costs& costs, const Decisions& decisions,
                                         std::int64_t budget, const StateLayout* layout) {
  const std::vector<Window> views = find_views(graph);
  Plan plan = Assembler(graph, views, costs, decisions, layout).run();
  plan.flows = decisions.levels.flow;
  if (plan.peak_bytes <= budget) return plan;
  const NodeId at = plan.instructions.at(fullest_tick(plan)).node;
  return Infeasible{
      .needed_bytes = plan.peak_bytes,
      .budget_bytes = budget,
      .at = at,
      .text = fmt::format("{} are needed, {} are given: {} of state, and {} at node '{}'", human_bytes(plan.peak_bytes),
                          human_bytes(budget), human_bytes(plan.state_bytes),
                          human_bytes(plan.peak_bytes - plan.state_bytes), graph.at(at).name)};
}

Footprint footprint(const Graph& graph, const std::vector<Window>& views, const Costs& costs,
                    const Decisions& decisions, std::int64_t budget) {
  return Assembler(graph, views, costs, decisions, nullptr).measure(budget);
}

namespace {

std::string in_level(precision::Level level) {
  return level == precision::Level::kFp32 ? "" : fmt::format(" as {}", precision::name(level));
}

}  // namespace

std::string print(const Plan& plan, const Graph& graph) {
  std::string out =
      fmt::format("plan state={} peak={} bound={}\n", plan.state_bytes, plan.peak_bytes, plan.lower_bound_bytes);
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const Block& b = plan.blocks[i];
    out += fmt::format("block {} {} [{},{}) @{} +{} {}{}\n", i, name(b.kind), b.lower, b.upper, b.offset, b.bytes,
                       b.tensor ? graph.at(b.tensor).name : "", in_level(b.level));
  }
  const auto operands = [](const std::vector<Operand>& list) {
    std::string text;
    for (const Operand& o : list) {
      text += o.block ? fmt::format(" {}{}", o.block.index, o.offset != 0 ? fmt::format("+{}", o.offset) : "") : " -";
    }
    return text;
  };
  for (const Instruction& in : plan.instructions) {
    const std::string& what = is_codec(in.action) ? graph.at(in.tensor).name : graph.at(in.node).name;
    out += fmt::format("{} {}{} ({} ) -> ({} ){}\n", name(in.action), what, in_level(in.level), operands(in.inputs),
                       operands(in.outputs),
                       in.workspace.block ? fmt::format(" scratch {}", in.workspace.block.index) : "");
  }
  return out;
}

}  // namespace neap
