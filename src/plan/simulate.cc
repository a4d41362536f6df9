#include "plan/simulate.h"

#include <algorithm>

namespace neap {

Simulation simulate(const Plan& plan, const Costs& costs) {
  Simulation out;
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
    const double ms = in.node.index < costs.ms.size() ? costs.ms[in.node.index] : 0;
    out.ms += ms;
    if (in.action == Action::kRecompute) out.recomputed_ms += ms;
  }
  return out;
}

}  // namespace neap
