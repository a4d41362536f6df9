// Abstract rematerialisation: a program of ops on tensors under a byte budget, and a schedule of runs and frees for it.
//
// Ops stand in program order, forward and backward in one list. While an op runs, what counts is every resident tensor
// (the problem's inputs always), its outputs that are not resident yet, and its workspace. Nothing is freed by itself:
// the schedule says so. Inputs are never freed. A re-run brings back those outputs that are not resident.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neap::remat {

using TensorIndex = std::uint32_t;
using OpIndex = std::uint32_t;
inline constexpr OpIndex kNoOp = UINT32_MAX;

struct Tensor {
  std::string name;
  std::int64_t bytes = 0;
  OpIndex op = kNoOp;  // that makes it; kNoOp: an input of the problem
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Op {
  std::string name;
  double ms = 0;
  std::vector<TensorIndex> inputs;  // none twice
  std::vector<TensorIndex> outputs;
  std::int64_t workspace = 0;
  bool recompute = true;  // may run more than once
  friend bool operator==(const Op&, const Op&) = default;
};

struct Problem {
  std::int64_t budget = INT64_MAX;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<TensorIndex> keep;  // resident at the end
  friend bool operator==(const Problem&, const Problem&) = default;
};

enum class StepKind : std::uint8_t { kRun, kFree };

struct Step {
  StepKind kind = StepKind::kRun;
  std::uint32_t index = 0;  // of an op, or of a tensor
  friend bool operator==(const Step&, const Step&) = default;
};

struct Answer {
  bool feasible = false;
  std::int64_t peak_bytes = 0;        // of the schedule; when infeasible, of the smallest one known
  std::int64_t min_budget_bytes = 0;  // the least that the policy is known to reach
  double baseline_ms = 0;             // every op once
  double total_ms = 0;
  bool optimal = false;  // proven
  double gap = 0;        // total_ms over a proven lower bound, less one
  std::vector<Step> schedule;
};

// What a schedule does. Shares no code with those who make schedules.
struct Replay {
  std::string error;  // empty: every op has run, on resident inputs, and `keep` is resident at the end
  std::int64_t peak_bytes = 0;
  double total_ms = 0;
  std::size_t runs = 0;
};
Replay replay(const Problem& problem, const std::vector<Step>& schedule);

// Why the problem is none: an op reads what is made later or never, two ops make one tensor, sums overflow, a time is
// not finite. Empty: it is sound. Everything else in this folder takes sound problems only.
std::string find_fault(const Problem& problem);

// Every op once, each tensor freed after its last use: the schedule of least time.
std::vector<Step> eager_schedule(const Problem& problem);
double baseline_ms(const Problem& problem);

}  // namespace neap::remat
