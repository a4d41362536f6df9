#include "autodiff/autodiff.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

class Sweep {
 public:
  Sweep(Builder& g, const std::vector<TensorId>& wrt) : g_(g), forward_nodes_(g.graph().nodes.size()) {
    depends_.resize(g.graph().tensors.size());
    for (const TensorId id : wrt) depends_[id.index] = true;
    for (const Node& node : g.graph().nodes) {
      bool any = false;
      for (const TensorId id : node.inputs) any = any || (id && depends_[id.index]);
      for (const TensorId id : node.outputs) {
        depends_[id.index] = any && is_float(g.graph().at(id).type.dtype);
      }
    }
  }

  std::map<TensorId, Value> run(Value loss) {
    if (!depends_[loss.index]) return {};
    gradient_[loss] = g_("ones_like", {loss}, {}, "d.loss");
    label_new_nodes(forward_nodes_, "loss");
    for (std::size_t i = forward_nodes_; i-- > 0;) visit(i);
    return std::move(gradient_);
  }

 private:
  void visit(std::size_t index) {
    const Node node = g_.graph().nodes[index];  // a copy: appending moves the original
    Values dy;
    bool flows = false;
    for (const TensorId id : node.outputs) {
      const auto at = gradient_.find(id);
      dy.push_back(at == gradient_.end() ? Value{} : at->second);
      flows = flows || dy.back();
    }
    if (!flows) return;
    std::vector<bool> wanted;
    bool any = false;
    for (const TensorId id : node.inputs) {
      wanted.push_back(id && depends_[id.index]);
      any = any || wanted.back();
    }
    if (!any) return;
    if (node.op->gradient == nullptr) {
      throw UserError(fmt::format("{} '{}' has no gradient; freeze what stands before it", node.op->name, node.name));
    }
    const std::size_t before = g_.graph().nodes.size();
    {
      const Builder::Scope scope(g_, "d." + node.name);
      GradientCall call{.g = g_, .node = node, .dy = dy, .wanted = wanted, .sums = sums_of(node, wanted)};
      call.taken.resize(node.inputs.size());
      const Values dx = node.op->gradient(call);
      for (std::size_t i = 0; i < dx.size() && i < node.inputs.size(); ++i) {
        if (!wanted[i] || !dx[i]) continue;
        if (call.taken[i]) gradient_.erase(node.inputs[i]);
        accumulate(node.inputs[i], dx[i]);
      }
    }
    label_new_nodes(before, node.layer);
  }

  // A tensor that the node reads twice has no sum to hand over: only one of the two parts could include it.
  Values sums_of(const Node& node, const std::vector<bool>& wanted) const {
    Values sums(node.inputs.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto at = gradient_.find(node.inputs[i]);
      const bool is_read_once = std::count(node.inputs.begin(), node.inputs.end(), node.inputs[i]) == 1;
      if (wanted[i] && is_read_once && at != gradient_.end()) sums[i] = at->second;
    }
    return sums;
  }

  void accumulate(TensorId id, Value part) {
    const Shape& shape = g_.shape(part);
    if (!(shape == g_.shape(id))) {
      throw InternalError(
          fmt::format("gradient of '{}' is {}, not {}", g_.graph().at(id).name, shape.text(), g_.shape(id).text()));
    }
    const auto [at, first] = gradient_.try_emplace(id, part);
    if (!first) at->second = g_("add", {at->second, part});
  }

  void label_new_nodes(std::size_t from, const std::string& layer) {
    for (std::size_t i = from; i < g_.graph().nodes.size(); ++i) {
      g_.graph().nodes[i].phase = Phase::kBackward;
      g_.graph().nodes[i].layer = layer;
    }
  }

  Builder& g_;
  std::size_t forward_nodes_;
  std::vector<bool> depends_;
  std::map<TensorId, Value> gradient_;
};

}  // namespace

std::map<TensorId, Value> differentiate(Builder& g, Value loss, const std::vector<TensorId>& wrt) {
  const TensorType type = g.type(loss);
  if (!(type.shape.elements() == Dim(1))) {
    throw UserError(fmt::format("the loss must be one number, it is {}", type.text()));
  }
  auto all = Sweep(g, wrt).run(loss);
  std::map<TensorId, Value> out;
  for (const TensorId id : wrt) {
    if (const auto at = all.find(id); at != all.end()) out.insert(*at);
  }
  return out;
}

}  // namespace neap
