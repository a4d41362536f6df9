#include "pool/pool_finish.h"

#include <algorithm>

namespace neap {

void set_lifetimes(Plan& plan, const Graph& graph) {
  const auto end = static_cast<Tick>(plan.instructions.size());
  for (Block& b : plan.blocks) {
    const bool stays = b.kind == BlockKind::kState;
    b.lower = stays ? 0 : end;
    b.upper = stays ? end : 0;
  }
  const auto touch = [&](const Operand& o, Tick from, Tick to) {
    if (!o.block) return;
    Block& b = plan.blocks[o.block.index];
    b.lower = std::min(b.lower, from);
    b.upper = std::max(b.upper, to);
  };
  for (Tick t = 0; t < end; ++t) {
    const Instruction& in = plan.instructions[t];
    for (const Operand& o : in.inputs) touch(o, t, t + 1);
    for (const Operand& o : in.outputs) touch(o, t, t + 1);
    touch(in.workspace, t, t + 1);
  }
  for (const auto& [id, home] : plan.homes) {
    const TensorId tensor = id;
    const bool is_result = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                       [tensor](const auto& result) { return result.second == tensor; });
    if (!graph.at(id).producer) touch(home, 0, 1);
    if (is_result) touch(home, end - 1, end);
  }
}

void drop_unused_blocks(Plan& plan) {
  std::vector<std::uint32_t> number(plan.blocks.size());
  std::uint32_t next = 0;
  for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
    number[b] = next;
    if (plan.blocks[b].lower < plan.blocks[b].upper) plan.blocks[next++] = plan.blocks[b];
  }
  plan.blocks.resize(next);
  const auto renumber = [&](Operand& o) {
    if (o.block) o.block.index = number[o.block.index];
  };
  for (Instruction& in : plan.instructions) {
    std::for_each(in.inputs.begin(), in.inputs.end(), renumber);
    std::for_each(in.outputs.begin(), in.outputs.end(), renumber);
    renumber(in.workspace);
  }
  for (auto& [id, home] : plan.homes) renumber(home);
}

}  // namespace neap
