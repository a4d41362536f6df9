#include "mixed/mixed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "graph/op.h"

namespace neap {
namespace {

// Inputs that a product reads as bf16, and outputs that it writes so, a bit each.
struct Product {
  std::string_view op;
  std::uint32_t inputs, outputs;
};
constexpr std::array kProducts = {
    Product{"linear", 0b111, 0b1},
    Product{"linear_grad_weight", 0b11, 0},
    Product{"linear_add_weight", 0b11, 0},
    Product{"matmul", 0b11, 0b1},
    Product{"attention", 0b111, 0b1},
    Product{"attention_grad", 0b11111, 0b111},
    Product{"conv", 0b111, 0b1},
    Product{"conv_grad_weight", 0b11, 0},
    Product{"conv_add_weight", 0b11, 0},
    Product{"conv_grad_data", 0b11, 0b1},
    Product{"linear_loss", 0b111, 0b10},
    Product{"linear_gelu", 0b111, 0b11},
    Product{"gelu_linear_grad", 0b111, 0b11},
    Product{"lstm_chunk", 0b111, 0},
    Product{"lstm_chunk_grad", 0b11100, 0},
    Product{"gru_chunk", 0b111, 0},
    Product{"gru_chunk_grad", 0b11100, 0},
};

// Output `output` has the type of input `input`.
struct Follower {
  std::string_view op;
  std::size_t output, input;
};
constexpr std::array kFollowers = {
    Follower{"batch_norm_apply", 0, 0},
    Follower{"batch_norm_grad", 0, 1},
    Follower{"batch_norm_grad", 3, 0},
    Follower{"moments_grad", 0, 0},
    Follower{"batch_norm_frozen_grad", 0, 0},
    Follower{"batch_norm_frozen_grad", 1, 0},
    Follower{"layer_norm_grad", 0, 1},
    Follower{"max_pool", 0, 0},
    Follower{"max_pool_grad", 0, 0},
    Follower{"average_pool", 0, 0},
    Follower{"average_pool_grad", 0, 0},
    Follower{"global_average_pool", 0, 0},
    Follower{"global_average_pool_grad", 0, 0},
    Follower{"transpose", 0, 0},
    Follower{"dropout", 0, 0},
};

const Product* product_of(const Node& node) {
  const auto at =
      std::find_if(kProducts.begin(), kProducts.end(), [&](const Product& p) { return p.op == node.op->name; });
  return at == kProducts.end() ? nullptr : &*at;
}

bool has_bit(std::uint32_t bits, std::size_t i) { return i < 32 && (bits >> i & 1U) != 0; }

class Narrowing {
 public:
  explicit Narrowing(const Graph& graph) : from_(graph), new_(graph.tensors.size()), is_wanted_(graph.tensors.size()) {
    find_wanted();
  }

  Graph run() {
    for (std::uint32_t i = 0; i < from_.tensors.size(); ++i) {
      if (!from_.tensors[i].producer) new_[i] = to_.add(from_.tensors[i]);
    }
    for (const Node& node : from_.nodes) copy(node);
    for (const auto& [label, id] : from_.outputs) to_.outputs.emplace_back(label, new_[id.index]);
    return std::move(to_);
  }

 private:
  // Tensors that are read, and as bf16 only.
  void find_wanted() {
    std::vector<bool> is_read_wide(from_.tensors.size());
    for (const Node& node : from_.nodes) {
      const Product* product = product_of(node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i]) continue;
        const bool is_narrow = product != nullptr && has_bit(product->inputs, i);
        (is_narrow ? is_wanted_ : is_read_wide)[node.inputs[i].index] = true;
      }
    }
    for (const auto& [label, id] : from_.outputs) is_read_wide[id.index] = true;
    for (std::size_t i = 0; i < is_wanted_.size(); ++i) is_wanted_[i] = is_wanted_[i] && !is_read_wide[i];
  }

  bool is_narrow(TensorId id) const { return to_.at(new_[id.index]).type.dtype == DType::kBF16; }

  void copy(const Node& node) {
    const Product* product = product_of(node);
    Node made = node;
    const bool is_widened = node.op->part_offset != nullptr && !has_only_narrow_inputs(node);
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      if (!made.inputs[i]) continue;
      const TensorId id = new_[made.inputs[i].index];
      const bool is_product = product != nullptr && has_bit(product->inputs, i);
      made.inputs[i] = is_product ? cast(id, DType::kBF16, node) : is_widened ? cast(id, DType::kF32, node) : id;
    }
    const NodeId at{static_cast<std::uint32_t>(to_.nodes.size())};
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Tensor t = from_.at(node.outputs[i]);
      t.producer = at;
      if (t.type.dtype == DType::kF32 && is_output_narrow(node, product, i)) t.type.dtype = DType::kBF16;
      made.outputs[i] = new_[node.outputs[i].index] = to_.add(std::move(t));
    }
    to_.nodes.push_back(std::move(made));
  }

  bool is_output_narrow(const Node& node, const Product* product, std::size_t output) const {
    if (product != nullptr) return has_bit(product->outputs, output);
    const bool is_view = node.op->view_offset != nullptr && node.op->view_offset(call_of(from_, node)).has_value();
    if (is_view) return is_narrow(node.inputs[0]);
    if (node.op->part_offset != nullptr) return has_only_narrow_inputs(node);  // they may be made in place in it
    if (is_wanted_[node.outputs[output].index]) return true;
    for (const Follower& f : kFollowers) {
      if (f.op == node.op->name && f.output == output) return node.inputs[f.input] && is_narrow(node.inputs[f.input]);
    }
    return node.op->elementwise && has_only_narrow_inputs(node);
  }

  bool has_only_narrow_inputs(const Node& node) const {
    bool any = false;
    for (const TensorId id : node.inputs) {
      if (!id || from_.at(id).type.dtype != DType::kF32) continue;
      if (!is_narrow(id)) return false;
      any = true;
    }
    return any;
  }

  // A copy of another type, made once, just before `reader`.
  TensorId cast(TensorId id, DType type, const Node& reader) {
    const DType from = to_.at(id).type.dtype;
    if (from == type || (from != DType::kF32 && from != DType::kBF16)) return id;
    const auto known = copies_.find(id);
    if (known != copies_.end()) return known->second;
    const NodeId at{static_cast<std::uint32_t>(to_.nodes.size())};
    const std::string label = fmt::format("{}.{}", to_.at(id).name, name(type));
    const TensorId copy = to_.add({.name = label, .type = {type, to_.at(id).type.shape}, .producer = at});
    to_.nodes.push_back({.op = &op_named("cast"),
                         .name = label,
                         .layer = reader.layer,
                         .inputs = {id},
                         .outputs = {copy},
                         .attrs = {{"to", std::string(name(type))}},
                         .phase = reader.phase});
    copies_[id] = copy;
    return copy;
  }

  const Graph& from_;
  Graph to_;
  std::vector<TensorId> new_;  // by the old index
  std::vector<bool> is_wanted_;
  std::map<TensorId, TensorId> copies_;
};

}  // namespace

Graph with_bf16(const Graph& graph) { return Narrowing(graph).run(); }

}  // namespace neap
