#include "tests/remat/tape.h"

#include <fmt/format.h>

#include <algorithm>

namespace neap::remat {
namespace {

constexpr std::int64_t kElementBytes = 4;
constexpr double kElementMs = 4e-8;  // one pass over an element
constexpr double kLaunchMs = 0.01;

}  // namespace

TensorIndex Tape::add_tensor(const std::string& name, std::int64_t bytes, OpIndex op) {
  problem_.tensors.push_back({.name = name, .bytes = bytes, .op = op});
  wants_gradient_.push_back(false);
  const auto index = static_cast<TensorIndex>(problem_.tensors.size() - 1);
  if (op != kNoOp) problem_.ops[op].outputs.push_back(index);
  return index;
}

OpIndex Tape::add_op(std::string name, double ms, std::vector<TensorIndex> inputs) {
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  problem_.ops.push_back({.name = std::move(name), .ms = ms + kLaunchMs, .inputs = std::move(inputs)});
  return static_cast<OpIndex>(problem_.ops.size() - 1);
}

Var Tape::input(const std::string& name, std::int64_t elements) {
  return {add_tensor(name, elements * kElementBytes, kNoOp), elements};
}

Var Tape::weight(const std::string& name, std::int64_t elements) {
  const Var out = input(name, elements);
  wants_gradient_[out.tensor] = true;
  weights_.push_back(out);
  return out;
}

Var Tape::op(const std::string& kind, const std::vector<Var>& inputs, std::int64_t elements, double ms,
             Backward backward, std::int64_t extra, bool recompute) {
  std::vector<TensorIndex> reads;
  bool wants = false;
  for (const Var& v : inputs) {
    reads.push_back(v.tensor);
    wants = wants || wants_gradient_[v.tensor];
  }
  const std::string name = fmt::format("{}{}", kind, problem_.ops.size());
  const OpIndex op = add_op(name, ms, std::move(reads));
  problem_.ops[op].recompute = recompute;
  const Var out{add_tensor(name + ".y", elements * kElementBytes, op), elements};
  Record record{.op = op, .inputs = inputs, .outputs = {out}, .backward = backward};
  if (extra > 0) record.extra = Var{add_tensor(name + ".s", extra * kElementBytes, op), extra};
  wants_gradient_[out.tensor] = wants;
  if (wants) records_.push_back(std::move(record));
  return out;
}

std::vector<Var> Tape::views(const Var& whole, int parts) {
  const std::string name = fmt::format("view{}", problem_.ops.size());
  const OpIndex op = add_op(name, 0, {whole.tensor});
  Record record{.op = op, .inputs = {whole}, .is_view = true};
  for (int i = 0; i < parts; ++i) {
    record.outputs.push_back({add_tensor(fmt::format("{}.{}", name, i), 0, op), whole.elements / parts});
    wants_gradient_[record.outputs.back().tensor] = wants_gradient_[whole.tensor];
  }
  std::vector<Var> out = record.outputs;
  if (wants_gradient_[whole.tensor]) records_.push_back(std::move(record));
  return out;
}

void Tape::give(const Var& to, TensorIndex gradient) {
  const auto [sum, is_first] = gradients_.try_emplace(to.tensor, gradient);
  if (is_first) return;
  const OpIndex add = add_op(fmt::format("add{}", problem_.ops.size()),
                             2 * static_cast<double>(to.elements) * kElementMs, {sum->second, gradient});
  sum->second =
      add_tensor(fmt::format("{}.d{}", problem_.tensors[to.tensor].name, add), to.elements * kElementBytes, add);
}

void Tape::add_backward(const Record& record) {
  std::vector<TensorIndex> reads;
  for (const Var& out : record.outputs) {
    if (const auto d = gradients_.find(out.tensor); d != gradients_.end()) reads.push_back(d->second);
  }
  if (reads.empty()) return;
  double ms = (problem_.ops[record.op].ms - kLaunchMs) * record.backward.factor;
  if (record.is_view) {
    ms = static_cast<double>(record.inputs[0].elements) * kElementMs;
  } else {
    for (const Var& in : record.inputs) {
      if (record.backward.reads_inputs) reads.push_back(in.tensor);
    }
    if (record.backward.reads_output) reads.push_back(record.outputs[0].tensor);
    if (record.extra) reads.push_back(record.extra->tensor);
  }
  const OpIndex op = add_op(problem_.ops[record.op].name + ".b", ms, std::move(reads));
  std::vector<std::pair<Var, TensorIndex>> made;
  for (std::size_t i = 0; i < record.inputs.size(); ++i) {
    const Var& in = record.inputs[i];
    if (!wants_gradient_[in.tensor]) continue;
    made.emplace_back(in, add_tensor(fmt::format("{}.d{}", problem_.ops[op].name, i), in.elements * kElementBytes, op));
  }
  for (const auto& [in, gradient] : made) give(in, gradient);
}

Problem Tape::finish(const Var& loss) {
  const OpIndex seed = add_op("seed", 0, {loss.tensor});
  gradients_[loss.tensor] = add_tensor("seed.y", loss.elements * kElementBytes, seed);
  for (std::size_t i = records_.size(); i > 0; --i) add_backward(records_[i - 1]);
  problem_.keep.push_back(loss.tensor);
  for (const Var& w : weights_) {
    if (const auto d = gradients_.find(w.tensor); d != gradients_.end()) problem_.keep.push_back(d->second);
  }
  return std::move(problem_);
}

}  // namespace neap::remat
