#include "remat/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace neap::remat {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;  // of all tensors and workspaces together
constexpr double kMostMs = 1e15;

// Adds up without overflow; false once the sum is beyond kMostBytes.
struct ByteSum {
  std::int64_t sum = 0;
  bool add(std::int64_t bytes) {
    if (bytes > kMostBytes - sum) return false;
    sum += bytes;
    return true;
  }
};

class Replayer {
 public:
  explicit Replayer(const Problem& problem)
      : problem_(problem), is_resident_(problem.tensors.size()), has_run_(problem.ops.size()) {
    for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
      if (problem.tensors[t].op != kNoOp) continue;
      is_resident_[t] = true;
      live_ += problem.tensors[t].bytes;
    }
    out_.peak_bytes = live_;
  }

  Replay walk(const std::vector<Step>& schedule) {
    for (std::size_t i = 0; i < schedule.size() && out_.error.empty(); ++i) {
      const Step& step = schedule[i];
      std::string fault = step.kind == StepKind::kRun ? run(step.index) : free(step.index);
      if (!fault.empty()) out_.error = fmt::format("step {}: {}", i, fault);
    }
    if (out_.error.empty()) out_.error = check_end();
    return std::move(out_);
  }

 private:
  std::string run(OpIndex index) {
    if (index >= problem_.ops.size()) return fmt::format("there is no op {}", index);
    const Op& op = problem_.ops[index];
    if (has_run_[index] && !op.recompute) return fmt::format("op '{}' must not run again", op.name);
    for (const TensorIndex t : op.inputs) {
      if (!is_resident_[t]) {
        return fmt::format("op '{}' reads '{}', which is not resident", op.name, problem_.tensors[t].name);
      }
    }
    for (const TensorIndex t : op.outputs) {
      if (!is_resident_[t]) live_ += problem_.tensors[t].bytes;
      is_resident_[t] = true;
    }
    out_.peak_bytes = std::max(out_.peak_bytes, live_ + op.workspace);
    out_.total_ms += op.ms;
    ++out_.runs;
    has_run_[index] = true;
    return {};
  }

  std::string free(TensorIndex index) {
    if (index >= problem_.tensors.size()) return fmt::format("there is no tensor {}", index);
    const Tensor& tensor = problem_.tensors[index];
    if (tensor.op == kNoOp) return fmt::format("input '{}' is freed", tensor.name);
    if (!is_resident_[index]) return fmt::format("'{}' is freed, but is not resident", tensor.name);
    is_resident_[index] = false;
    live_ -= tensor.bytes;
    return {};
  }

  std::string check_end() const {
    for (std::size_t i = 0; i < problem_.ops.size(); ++i) {
      if (!has_run_[i]) return fmt::format("op '{}' has not run", problem_.ops[i].name);
    }
    for (const TensorIndex t : problem_.keep) {
      if (!is_resident_[t]) return fmt::format("'{}' is not resident at the end", problem_.tensors[t].name);
    }
    return {};
  }

  const Problem& problem_;
  std::vector<bool> is_resident_;
  std::vector<bool> has_run_;
  std::int64_t live_ = 0;
  Replay out_;
};

std::string find_fault_of_op(const Problem& p, OpIndex index, std::vector<bool>& is_made) {
  const Op& op = p.ops[index];
  if (!(op.ms >= 0) || op.ms > kMostMs) return fmt::format("op '{}': {} ms is no time", op.name, op.ms);
  if (op.workspace < 0) return fmt::format("op '{}': a workspace of {} bytes", op.name, op.workspace);
  std::vector<TensorIndex> reads = op.inputs;
  std::sort(reads.begin(), reads.end());
  if (std::adjacent_find(reads.begin(), reads.end()) != reads.end()) {
    return fmt::format("op '{}' lists an input twice", op.name);
  }
  for (const TensorIndex t : op.inputs) {
    if (t >= p.tensors.size()) return fmt::format("op '{}' reads tensor {}, which there is not", op.name, t);
    if (!is_made[t]) return fmt::format("op '{}' reads '{}' before it is made", op.name, p.tensors[t].name);
  }
  for (const TensorIndex t : op.outputs) {
    if (t >= p.tensors.size()) return fmt::format("op '{}' makes tensor {}, which there is not", op.name, t);
    if (is_made[t]) return fmt::format("op '{}' makes '{}', which is there already", op.name, p.tensors[t].name);
    if (p.tensors[t].op != index) return fmt::format("'{}' does not name op '{}'", p.tensors[t].name, op.name);
    is_made[t] = true;
  }
  return {};
}

}  // namespace

Replay replay(const Problem& problem, const std::vector<Step>& schedule) { return Replayer(problem).walk(schedule); }

std::string find_fault(const Problem& problem) {
  if (problem.budget < 0) return fmt::format("the budget of {} bytes is negative", problem.budget);
  if (problem.ops.size() >= kNoOp || problem.tensors.size() >= UINT32_MAX) return "too many ops or tensors";
  ByteSum sum;
  std::vector<bool> is_made(problem.tensors.size());
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    const Tensor& tensor = problem.tensors[t];
    if (tensor.bytes < 0) return fmt::format("'{}' has {} bytes", tensor.name, tensor.bytes);
    if (!sum.add(tensor.bytes)) return fmt::format("with '{}' the sizes add up to more than 2^62 bytes", tensor.name);
    is_made[t] = tensor.op == kNoOp;
  }
  for (OpIndex i = 0; i < problem.ops.size(); ++i) {
    if (std::string fault = find_fault_of_op(problem, i, is_made); !fault.empty()) return fault;
    if (!sum.add(problem.ops[i].workspace)) {
      return fmt::format("with op '{}' the sizes add up to more than 2^62 bytes", problem.ops[i].name);
    }
  }
  const auto unmade = std::find(is_made.begin(), is_made.end(), false);
  if (unmade != is_made.end()) {
    return fmt::format("no op makes '{}'", problem.tensors[static_cast<std::size_t>(unmade - is_made.begin())].name);
  }
  for (const TensorIndex t : problem.keep) {
    if (t >= problem.tensors.size()) return fmt::format("tensor {} is to be kept, which there is not", t);
  }
  return {};
}

std::vector<Step> eager_schedule(const Problem& problem) {
  std::vector<OpIndex> last_use(problem.tensors.size(), 0);
  for (OpIndex i = 0; i < problem.ops.size(); ++i) {
    for (const TensorIndex t : problem.ops[i].inputs) last_use[t] = i;
    for (const TensorIndex t : problem.ops[i].outputs) last_use[t] = i;
  }
  for (const TensorIndex t : problem.keep) last_use[t] = kNoOp;
  std::vector<Step> out;
  for (OpIndex i = 0; i < problem.ops.size(); ++i) {
    out.push_back({StepKind::kRun, i});
    for (const std::vector<TensorIndex>* list : {&problem.ops[i].inputs, &problem.ops[i].outputs}) {
      for (const TensorIndex t : *list) {
        if (last_use[t] == i && problem.tensors[t].op != kNoOp) out.push_back({StepKind::kFree, t});
      }
    }
  }
  return out;
}

double baseline_ms(const Problem& problem) {
  double sum = 0;
  for (const Op& op : problem.ops) sum += op.ms;
  return sum;
}

}  // namespace neap::remat
