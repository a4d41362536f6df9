#include "train/prepared_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "ops/evaluate.h"
#include "optimize/rewrite.h"

namespace neap {

PreparedWeights::PreparedWeights(const Halves& halves, Executor& executor)
    : halves_(halves), executor_(executor), done_(halves.once.nodes.size()) {}

void PreparedWeights::give(const std::string& name, const std::byte* data) {
  if (const auto id = halves_.rest.find(name)) write(*id, data);
  const auto id = halves_.once.find(name);
  if (!id) return;
  waiting_[id->index].assign(data, data + halves_.once.at(*id).type.bytes());
  run_ready();
}

// One that waits outside of the arena may not get there; it is tried again.
void PreparedWeights::write(TensorId id, const std::byte* data) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      return executor_.write(id, data);
    } catch (const SpillLost& lost) {
      if (attempt < kAttempts) continue;
      throw DeviceError(fmt::format(
          "weights cannot be brought to where they wait: {}; give another --spill-dir, or a larger --budget",
          lost.what));
    }
  }
}

void PreparedWeights::finish() const {
  require(std::all_of(done_.begin(), done_.end(), [](bool is_done) { return is_done; }), "every weight has come");
}

void PreparedWeights::run_ready() {
  for (std::size_t i = 0; i < done_.size(); ++i) {
    const Node& node = halves_.once.nodes[i];
    const auto is_here = [&](TensorId id) { return !id || waiting_.contains(id.index); };
    if (done_[i] || !std::all_of(node.inputs.begin(), node.inputs.end(), is_here)) continue;
    run(node);
    done_[i] = true;
    for (const TensorId id : node.inputs) {
      if (id) release(id);
    }
  }
}

// Once nobody is left who reads it.
void PreparedWeights::release(TensorId id) {
  for (std::size_t i = 0; i < done_.size(); ++i) {
    const auto& inputs = halves_.once.nodes[i].inputs;
    if (!done_[i] && std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return;
  }
  waiting_.erase(id.index);
}

void PreparedWeights::run(const Node& node) {
  Graph alone;
  std::map<std::string, HostTensor> leaves;
  Node copy = node;
  for (TensorId& id : copy.inputs) {
    if (!id) continue;
    const Tensor& t = halves_.once.at(id);
    HostTensor& leaf = leaves[t.name];
    leaf.type = t.type;
    leaf.data = waiting_.at(id.index);
    const auto known = alone.find(t.name);
    id = known ? *known : alone.add({.name = t.name, .type = t.type, .role = Role::kParameter});
  }
  alone.append(std::move(copy));
  auto values = evaluate(alone, leaves);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorId id = node.outputs[i];
    if (!id) continue;
    HostTensor& made = values[alone.nodes[0].outputs[i].index];
    if (const auto to = halves_.rest.find(halves_.once.at(id).name)) write(*to, made.data.data());
    waiting_[id.index] = std::move(made.data);
    release(id);
  }
}

}  // namespace neap
