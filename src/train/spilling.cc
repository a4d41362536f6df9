#include "train/spilling.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"

namespace neap {

bool can_run_again(const Plan& plan, const Graph& graph) {
  bool has_changed = false;
  for (const Instruction& in : plan.instructions) {
    if (is_transfer(in.action) && has_changed) return false;
    if (is_call(in.action)) has_changed |= graph.at(in.node).op->side_effects();
  }
  return true;
}

std::int64_t needed_room(const Plan& plan, const Graph& graph) {
  std::int64_t out = 0;
  for (const std::int64_t bytes : plan.slots) out += align_up(bytes, kPage);
  return can_run_again(plan, graph) ? out : 2 * out;
}

namespace {

// By the numbers of instructions: from the first write to when the last read is known to be good. What is there before
// the step, a weight, is in use all the time.
std::vector<SlotLife> lives_of(const Plan& plan) {
  std::vector<SlotLife> out(plan.slots.size());
  std::vector<bool> is_written(plan.slots.size());
  for (std::uint32_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& in = plan.instructions[i];
    if (!is_transfer(in.action)) continue;
    SlotLife& life = out[in.slot.index];
    if (in.action == Action::kSpillBegin && !is_written[in.slot.index]) {
      is_written[in.slot.index] = true;
      life.begin = i;
    }
    if (is_written[in.slot.index]) life.end = i;
  }
  return out;
}

}  // namespace

SpillOptions spill_options(const TrainOptions& options, const Plan& plan, const Graph& graph,
                           std::span<std::byte> memory, std::shared_ptr<SpillFaults> faults) {
  return {.folder = options.spill_dir,
          .host_ram_bytes = options.host_ram,
          .mirror = !can_run_again(plan, graph),
          .lives = lives_of(plan),
          .memory = memory,
          .write_bytes_per_s = options.spill_write_rate,
          .read_bytes_per_s = options.spill_read_rate,
          .faults = std::move(faults)};
}

std::unique_ptr<SpillStore> make_store(const Device& device, const std::vector<std::int64_t>& slots,
                                       const SpillOptions& options) {
  if (spill_store_maker() == nullptr) throw UserError("this application links no spill store; link neap::models");
  return (device.kind() == DeviceKind::kCuda ? make_cuda_spill_store : spill_store_maker())(slots, options);
}

double read_bytes_per_ms(const Device& device, const TrainOptions& options, std::int64_t bytes, double guessed) {
  constexpr std::int64_t kTried = 8 * kMiB;
  if (device.kind() != DeviceKind::kCpu) return guessed;
  SpillOptions place = spill_options(options, {}, {}, {}, nullptr);
  if (place.host_ram_bytes < bytes) place.host_ram_bytes = 0;  // the disk is what they wait for
  std::vector<std::byte> memory(static_cast<std::size_t>(kTried + kPage), std::byte{1});
  std::size_t room = memory.size();
  void* first = memory.data();
  auto* data = static_cast<std::byte*>(std::align(kPage, kTried, first, room));  // as blocks of the arena are
  const auto store = make_store(device, {kTried}, place);
  try {
    store->begin_write(0, data);
    store->wait(0);
    store->begin_read(0, data);
    store->wait(0);
  } catch (const SpillLost&) {
    return guessed;  // what goes wrong is told by those who need it
  }
  const double ms = store->counters().read_ms;
  return ms > 0 ? static_cast<double>(kTried) / ms : guessed;
}

SpillCounters between(const SpillCounters& before, const SpillCounters& after) {
  return {.written_bytes = after.written_bytes - before.written_bytes,
          .read_bytes = after.read_bytes - before.read_bytes,
          .write_ms = after.write_ms - before.write_ms,
          .read_ms = after.read_ms - before.read_ms,
          .stalled_ms = after.stalled_ms - before.stalled_ms,
          .ram_bytes = after.ram_bytes,
          .file_bytes = after.file_bytes};
}

bool SpillWatch::is_plan_due(const SpillCounters& step, double step_ms, Link& link) {
  constexpr double kBearable = 0.03;  // share of a step
  constexpr double kMostLead = 8;
  ++seen_.steps;
  if (step.stalled_ms > kBearable * step_ms) ++seen_.stalled;
  seen_.sum.written_bytes += step.written_bytes;
  seen_.sum.read_bytes += step.read_bytes;
  seen_.sum.write_ms += step.write_ms;
  seen_.sum.read_ms += step.read_ms;
  if (seen_.steps < window_) return false;
  const Seen seen = seen_;
  seen_ = {};
  if (seen.stalled * 2 <= seen.steps || seen.sum.write_ms <= 0 || seen.sum.read_ms <= 0) return false;
  const double write = static_cast<double>(seen.sum.written_bytes) / seen.sum.write_ms;
  const double read = static_cast<double>(seen.sum.read_bytes) / seen.sum.read_ms;
  const auto differs = [](double a, double b) { return a > 1.3 * b || b > 1.3 * a; };
  const bool is_other_disk = differs(write, link.write_bytes_per_ms) || differs(read, link.read_bytes_per_ms);
  if (!is_other_disk && link.lead >= kMostLead) return false;
  if (!is_other_disk) link.lead *= 2;
  link.write_bytes_per_ms = write;
  link.read_bytes_per_ms = read;
  window_ = std::min(window_ * 2, 1 << 20);
  return true;
}

std::string text_of(const SpillLost& lost, std::int64_t step, bool state_has_changed) {
  std::string out = fmt::format("step {}: {}", step, lost.what);
  if (lost.room_bytes >= 0) out += fmt::format(" behind {} of spilled tensors", human_bytes(lost.room_bytes));
  if (state_has_changed) return out + ", after weights had changed; go on from a checkpoint (--resume)";
  return out + "; give another --spill-dir, or a larger --budget";
}

}  // namespace neap
