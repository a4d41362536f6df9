// What builds with NEAP_CHECKED do at every instruction: each byte of the arena knows the generation of the block that
// owns it, every access must find its own, and what a block leaves behind is poisoned. It catches plans that validate()
// should not have let through, and kernels that read what is no longer theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace neap {

class Checks {
 public:
  struct Kinds {
    bool generations = true;
    bool poison = true;
  };
  static constexpr std::byte kPoison{0xFF};  // floats of it are not numbers

  // `base` is the arena's memory; null: there is none to poison.
  Checks(const Plan& plan, const Graph& graph, const Costs& costs, std::byte* base, Kinds kinds = {true, true});

  // Around each instruction, in order. InternalError names instruction, tensor, block and both generations.
  void before(std::size_t instruction);
  void after(std::size_t instruction);

 private:
  struct Owner {
    std::int64_t end = 0;
    std::uint64_t generation = 0;
  };

  void start();
  void own(std::uint32_t block);
  void disown(std::uint32_t block);
  void split(std::int64_t at);
  void check(const Operand& operand, std::int64_t bytes, std::size_t instruction, const char* what) const;
  void check_transfer(std::size_t instruction) const;
  void check_codec(std::size_t instruction) const;

  const Plan& plan_;
  const Graph& graph_;
  const Costs& costs_;
  std::byte* base_;
  Kinds kinds_;
  std::vector<std::vector<std::uint32_t>> births_;  // per instruction: blocks
  std::vector<std::vector<std::uint32_t>> deaths_;  // per instruction: blocks whose last one it is
  std::vector<std::uint64_t> generation_;           // per block; 0: not alive
  std::map<std::int64_t, Owner> owners_;            // by first byte
  std::uint64_t last_generation_ = 0;
};

}  // namespace neap
