#include "plan/simulate.h"

#include <algorithm>

#include "plan/transfers.h"

namespace neap {

double call_ms(const Instruction& in, const Costs& costs) {
  if (is_transfer(in.action)) return 0;
  if (is_codec(in.action)) return codec_ms(costs.codec, in.action, in.level, in.elements);
  return in.node.index < costs.ms.size() ? costs.ms[in.node.index] : 0;
}

Simulation simulate(const Plan& plan, const Costs& costs, const Link& link) {
  Simulation out;
  std::vector<double> done(plan.slots.size());  // when the transfer of each slot ends
  double channel_free = 0;
  const auto transfer = [&](const Instruction& in) {
    const std::int64_t bytes = plan.slots[in.slot.index];
    double& end = done[in.slot.index];
    if (in.action == Action::kSpillBegin || in.action == Action::kFetchBegin) {
      const double ms = transfer_ms(link, in.action, bytes);
      out.ms += static_cast<double>(bytes) * link.host_ms_per_byte;
      end = channel_free = std::max(channel_free, out.ms) + ms;
      out.transfer_ms += ms;
      if (in.action == Action::kSpillBegin) out.spilled_bytes += bytes;
      return;
    }
    out.stalled_ms += std::max(0.0, end - out.ms);
    out.ms = std::max(out.ms, end);
  };
  std::vector<std::int64_t> change(plan.instructions.size() + 1);
  for (const Block& b : plan.blocks) {
    out.peak_bytes = std::max(out.peak_bytes, b.offset + b.bytes);
    change[std::min<std::size_t>(b.lower, plan.instructions.size())] += b.bytes;
    change[std::min<std::size_t>(b.upper, plan.instructions.size())] -= b.bytes;
  }
  std::int64_t live = 0;
  for (std::size_t t = 0; t < plan.instructions.size(); ++t) {
    out.live_bytes.push_back(live += change[t]);
    const Instruction& in = plan.instructions[t];
    if (is_transfer(in.action)) {
      transfer(in);
      continue;
    }
    const double ms = call_ms(in, costs);
    out.ms += ms;
    if (is_codec(in.action)) out.codec_ms += ms;
    if (in.action == Action::kEncode) out.encoded_bytes += precision::encoded_bytes(in.level, in.elements);
    if (in.action == Action::kRecompute) out.recomputed_ms += ms;
  }
  return out;
}

}  // namespace neap
