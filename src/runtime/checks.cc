#include "runtime/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "neap/error.h"

namespace neap {

Checks::Checks(const Plan& plan, const Graph& graph, const Costs& costs, std::byte* base, Kinds kinds)
    : plan_(plan),
      graph_(graph),
      costs_(costs),
      base_(base),
      kinds_(kinds),
      births_(plan.instructions.size()),
      deaths_(plan.instructions.size()),
      generation_(plan.blocks.size()) {
  for (std::uint32_t b = 0; b < plan.blocks.size(); ++b) {
    const Block& block = plan.blocks[b];
    if (block.lower < births_.size()) births_[block.lower].push_back(b);
    // What lives to the end is the host's to read.
    if (block.upper > 0 && block.upper < deaths_.size()) deaths_[block.upper - 1].push_back(b);
  }
}

// A step begins, be it that the one before was broken off.
void Checks::start() {
  owners_.clear();
  std::fill(generation_.begin(), generation_.end(), 0);
}

void Checks::split(std::int64_t at) {
  auto it = owners_.upper_bound(at);
  if (it == owners_.begin()) return;
  --it;
  if (it->first == at || it->second.end <= at) return;
  const Owner tail = it->second;
  it->second.end = at;
  owners_[at] = tail;
}

void Checks::own(std::uint32_t b) {
  const Block& block = plan_.blocks[b];
  generation_[b] = ++last_generation_;
  if (block.bytes == 0) return;
  split(block.offset);
  split(block.offset + block.bytes);
  owners_.erase(owners_.lower_bound(block.offset), owners_.lower_bound(block.offset + block.bytes));
  owners_[block.offset] = {block.offset + block.bytes, generation_[b]};
}

// Only those bytes are poisoned that nobody has taken meanwhile.
void Checks::disown(std::uint32_t b) {
  const Block& block = plan_.blocks[b];
  const auto end = owners_.lower_bound(block.offset + block.bytes);
  for (auto it = owners_.lower_bound(block.offset); it != end;) {
    if (it->second.generation != generation_[b]) {
      ++it;
      continue;
    }
    if (kinds_.poison && base_ != nullptr) {
      std::memset(base_ + it->first, static_cast<int>(kPoison), static_cast<std::size_t>(it->second.end - it->first));
    }
    it = owners_.erase(it);
  }
  generation_[b] = 0;
}

void Checks::check(const Operand& o, std::int64_t bytes, std::size_t instruction, const char* what) const {
  if (!o.block || !kinds_.generations) return;
  const auto fail = [&](std::uint64_t found) {
    const Instruction& in = plan_.instructions[instruction];
    throw InternalError(fmt::format("instruction {} ({} '{}') {} block {} of generation {}, but its bytes are {}",
                                    instruction, name(in.action), in.node ? graph_.at(in.node).name : "", what,
                                    o.block.index, generation_[o.block.index],
                                    found == 0 ? "nobody's" : fmt::format("of generation {}", found)));
  };
  const std::uint64_t own = generation_.at(o.block.index);
  if (own == 0) fail(0);
  std::int64_t at = plan_.blocks[o.block.index].offset + o.offset;
  for (const std::int64_t end = at + bytes; at < end;) {
    auto it = owners_.upper_bound(at);
    const bool is_owned = it != owners_.begin() && (--it)->second.end > at;
    if (!is_owned || it->second.generation != own) fail(is_owned ? it->second.generation : 0);
    at = it->second.end;
  }
}

void Checks::check_transfer(std::size_t i) const {
  const Instruction& in = plan_.instructions[i];
  const std::int64_t bytes = plan_.slots[in.slot.index];
  for (const Operand& o : in.inputs) check(o, bytes, i, "reads");
  for (const Operand& o : in.outputs) check(o, bytes, i, "writes");
}

void Checks::check_codec(std::size_t i) const {
  const Instruction& in = plan_.instructions[i];
  const std::int64_t plain = graph_.at(in.tensor).type.bytes();
  const std::int64_t encoded = precision::encoded_bytes(in.level, in.elements);
  const bool is_encode = in.action == Action::kEncode;
  check(in.inputs.at(0), is_encode ? plain : encoded, i, "reads");
  check(in.outputs.at(0), is_encode ? encoded : plain, i, "writes");
}

void Checks::before(std::size_t i) {
  if (i == 0) start();
  for (const std::uint32_t b : births_[i]) own(b);
  const Instruction& in = plan_.instructions[i];
  if (is_transfer(in.action)) return check_transfer(i);
  if (is_codec(in.action)) return check_codec(i);
  const Node& node = graph_.at(in.node);
  for (std::size_t k = 0; k < in.inputs.size(); ++k) {
    if (node.inputs[k]) check(in.inputs[k], graph_.at(node.inputs[k]).type.bytes(), i, "reads");
  }
  for (std::size_t k = 0; k < in.outputs.size(); ++k) {
    check(in.outputs[k], graph_.at(node.outputs[k]).type.bytes(), i, "writes");
  }
  const bool has_workspace = in.node.index < costs_.workspace.size();
  check(in.workspace, has_workspace ? costs_.workspace[in.node.index] : 0, i, "works in");
}

void Checks::after(std::size_t i) {
  for (const std::uint32_t b : deaths_[i]) disown(b);
}

}  // namespace neap
