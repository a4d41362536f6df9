#include <algorithm>

#include "core/bytes.h"
#include "graph/op.h"
#include "plan/schedule.h"

namespace neap {
namespace {

// Below this, making a tensor again costs more in calls than it saves in bytes.
constexpr std::int64_t kWorthwhile = 4 * kKiB;

class SavedForms {
 public:
  explicit SavedForms(const Graph& graph) : graph_(graph), views_(find_views(graph)), read_(graph.tensors.size()) {
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::kBackward || is_view(graph, node)) continue;
      for (const TensorId id : node.inputs) {
        if (id) read_[views_[id.index].root.index] = true;
      }
    }
  }

  Decisions run() {
    Decisions out;
    out.residency.assign(graph_.tensors.size(), Residency::kKeep);
    const std::vector<bool> is_kept = kept_from_parts(graph_, views_);
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::kForward || !node.op->cheap || is_kept[i]) continue;
      for (const TensorId id : node.outputs) {
        if (read_[id.index] && is_worthwhile(node, id) && comes_from_kept(node, id, out)) {
          out.residency[id.index] = Residency::kRecompute;
        }
      }
    }
    return out;
  }

 private:
  // Beside products of bf16 every pass over memory counts: a norm that reads far more than it makes is not for free,
  // and all that it makes is kept. A tensor that is only rounded takes far less time than what it is rounded for.
  bool is_worthwhile(const Node& node, TensorId output) const {
    const TensorType& made = graph_.at(node.outputs[0]).type;
    std::int64_t read = 0;
    for (const TensorId id : node.inputs) read += id ? graph_.at(id).type.bytes() : 0;
    const bool is_free = made.dtype != DType::kBF16 || node.op->elementwise || 2 * read < 3 * made.bytes();
    return is_free && graph_.at(output).type.bytes() >= kWorthwhile;
  }

  bool comes_from_kept(const Node& node, TensorId output, const Decisions& so_far) const {
    if (is_view(graph_, node)) return false;
    for (const TensorId id : node.inputs) {
      if (!id) continue;
      const TensorId root = views_[id.index].root;
      const Tensor& t = graph_.at(root);
      if (is_state(t.role)) continue;
      // Data of the batch can stay a little longer where it is much smaller than what it makes.
      const bool is_small_input = t.role == Role::kInput && t.type.bytes() * 4 <= graph_.at(output).type.bytes();
      const bool is_kept = read_[root.index] && so_far.residency[root.index] == Residency::kKeep;
      if (!is_small_input && !is_kept) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<Window> views_;
  std::vector<bool> read_;  // by a backward node
};

}  // namespace

std::vector<bool> kept_from_parts(const Graph& graph, const std::vector<Window>& views) {
  std::vector<bool> has_parts(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kUpdate || node.outputs.empty()) continue;  // it leaves something to the next part
    for (const std::uint8_t m : node.op->mutates) {
      if (m < node.inputs.size() && node.inputs[m]) has_parts[views[node.inputs[m].index].root.index] = true;
    }
  }
  std::vector<bool> out(graph.nodes.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Node& node = graph.nodes[i];
    out[i] = node.phase == Phase::kForward &&
             std::ranges::any_of(node.inputs, [&](TensorId id) { return id && has_parts[views[id.index].root.index]; });
  }
  return out;
}

Decisions store_all(const Graph& graph) { return SavedForms(graph).run(); }

}  // namespace neap
