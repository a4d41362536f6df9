#include "policy/storable.h"

#include <algorithm>
#include <map>

#include "graph/op.h"
#include "plan/encode.h"

namespace neap {
namespace {

using precision::Level;
using precision::OpClass;

// Below this, codes and scales save nothing that shows.
constexpr std::int64_t kFewElements = 1024;
// A tensor so much smaller than what it was made from is a statistic of it: cheap to keep, and all depends on it.
constexpr std::int64_t kStatistic = 32;

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// From what bears errors best to what bears them worst.
int delicacy(OpClass c) {
  switch (c) {
    case OpClass::kProduct: return 0;
    case OpClass::kActivation: return 1;
    case OpClass::kNorm: return 2;
    case OpClass::kAttention: return 3;
    case OpClass::kRecurrent: return 4;
    case OpClass::kOther: return 5;
  }
  return 5;
}

// How far an error in a stored tensor gets: per tensor of backward, its relative variance for a unit of it in what is
// read. Where gradients are added up, as behind a residual branch, the others dilute it: parts of equal size are
// assumed, so that the variance of a sum is the mean of its parts'. Whatever else a node does, it hands on all of it.
class Reach {
 public:
  Reach(const Graph& graph, const std::vector<Window>& views, const Decisions& lossless)
      : graph_(graph), views_(views), lossless_(lossless) {
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::kUpdate) continue;
      for (const TensorId id : node.inputs) {
        if (id && is_gradient(id) && graph.at(id).type.shape.rank() >= kMatrix)
          gradients_[node.inputs[0]].push_back(id);
      }
    }
  }

  // The mean over the gradients of all weights; biases and the like go with their layer's weights.
  double of(TensorId stored) const {
    if (gradients_.empty()) return 1;
    std::vector<bool> is_read(graph_.tensors.size());
    std::vector<double> variance(graph_.tensors.size());
    is_read[stored.index] = true;
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::kUpdate) continue;
      const bool reads =
          std::ranges::any_of(node.inputs, [&](TensorId id) { return id && is_read[views_[id.index].root.index]; });
      const double handed_on = node.phase == Phase::kBackward ? (reads ? 1 : of_sum(node, variance)) : 0;
      for (const TensorId id : node.outputs) {
        if (!id) continue;
        if (reads && is_derived(id)) is_read[id.index] = true;
        variance[id.index] = handed_on;
      }
    }
    double sum = 0;
    for (const auto& [weight, parts] : gradients_) {
      double of_parts = 0;
      for (const TensorId id : parts) of_parts += variance[id.index];
      sum += of_parts / static_cast<double>(parts.size());
    }
    return sum / static_cast<double>(gradients_.size());
  }

 private:
  static constexpr int kMatrix = 2;

  bool is_gradient(TensorId id) const {
    const Tensor& t = graph_.at(id);
    return t.role == Role::kActivation && graph_.at(t.producer).phase == Phase::kBackward;
  }
  bool is_derived(TensorId id) const { return lossless_.residency[id.index] == Residency::kRecompute; }

  double of_sum(const Node& node, const std::vector<double>& variance) const {
    double sum = 0;
    double parts = 0;
    for (const TensorId id : node.inputs) {
      if (!id || !is_gradient(id)) continue;
      sum += variance[id.index];
      ++parts;
    }
    return is_one_of(node.op->name, {"add", "sub"}) && parts > 0 ? sum / parts : std::min(sum, 1.0);
  }

  const Graph& graph_;
  const std::vector<Window>& views_;
  const Decisions& lossless_;
  std::map<TensorId, std::vector<TensorId>> gradients_;  // of each weight; several where it is updated in parts
};

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph), views_(find_views(graph)), lossless_(store_all(graph)), class_(graph.tensors.size(), kUnread) {}

  std::vector<Storable> run() {
    read_backward();
    std::vector<Storable> out;
    for (std::uint32_t i = 0; i < graph_.tensors.size(); ++i) {
      if (is_storable({i})) {
        out.push_back(
            {.id = {i}, .op_class = static_cast<OpClass>(class_[i]), .elements = graph_.tensors[i].type.elements()});
      }
    }
    const Reach reach(graph_, views_, lossless_);
    for (Storable& s : out) s.reach = reach.of(s.id);
    return out;
  }

 private:
  static constexpr int kUnread = -1;

  bool is_derived(TensorId id) const { return lossless_.residency[id.index] == Residency::kRecompute; }

  void note(TensorId id, OpClass c) {
    const TensorId root = views_[id.index].root;
    int& now = class_[root.index];
    if (now == kUnread || delicacy(c) > delicacy(static_cast<OpClass>(now))) now = static_cast<int>(c);
  }

  void read_backward() {
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kBackward || is_view(views_, node)) continue;
      for (const TensorId id : node.inputs) {
        if (id) note(id, op_class_of(node.op->name));
      }
    }
    // What is derived is stored as what it is derived from.
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      const Node& node = graph_.nodes[n];
      if (node.phase != Phase::kForward || is_view(views_, node)) continue;
      for (const TensorId output : node.outputs) {
        if (!is_derived(output) || class_[output.index] == kUnread) continue;
        const OpClass c = std::max(OpClass::kActivation, static_cast<OpClass>(class_[output.index]),
                                   [](OpClass a, OpClass b) { return delicacy(a) < delicacy(b); });
        for (const TensorId id : node.inputs) {
          if (id) note(id, c);
        }
      }
    }
  }

  bool is_statistic(const Tensor& t) const {
    std::int64_t most = 0;
    for (const TensorId id : graph_.at(t.producer).inputs) {
      if (id && !is_state(graph_.at(id).role)) most = std::max(most, graph_.at(id).type.elements());
    }
    return t.type.elements() * kStatistic < most;
  }

  bool is_storable(TensorId id) const {
    const Tensor& t = graph_.at(id);
    const int c = class_[id.index];
    if (c == kUnread || c == static_cast<int>(OpClass::kOther)) return false;
    return can_encode(graph_, views_, id) && !is_derived(id) && t.type.elements() >= kFewElements && !is_statistic(t);
  }

  const Graph& graph_;
  std::vector<Window> views_;
  Decisions lossless_;
  std::vector<int> class_;  // per tensor: OpClass, or kUnread
};

}  // namespace

OpClass op_class_of(std::string_view op) {
  if (is_one_of(op, {"linear", "linear_grad_weight", "matmul", "gemm", "conv", "conv_grad_weight", "conv_grad_data",
                     "conv_transpose", "mul", "sum_to", "reduce_sum"})) {
    return OpClass::kProduct;
  }
  if (op.find("norm") != op.npos || op == "batch_stats" || op == "lrn_grad") return OpClass::kNorm;
  if (is_one_of(op, {"attention_grad", "softmax_grad", "log_softmax_grad"})) return OpClass::kAttention;
  if (op.ends_with("_chunk_grad")) return OpClass::kRecurrent;
  if (is_one_of(op, {"cross_entropy_grad", "nll_loss_grad", "mse_grad", "l1_loss_grad", "smooth_l1_grad",
                     "bce_with_logits_grad", "max_pool_grad", "max_unpool_grad", "embedding_grad", "gather_grad"})) {
    return OpClass::kOther;
  }
  return op.ends_with("_grad") ? OpClass::kActivation : OpClass::kOther;
}

std::vector<Storable> find_storable(const Graph& graph) { return Finder(graph).run(); }

StoredLevels fixed_levels(const Graph& graph, Level level) {
  StoredLevels out{.of = std::vector<Level>(graph.tensors.size(), Level::kFp32)};
  for (const Storable& s : find_storable(graph)) out.of[s.id.index] = level;
  return out;
}

}  // namespace neap
