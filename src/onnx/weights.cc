#include "onnx/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

namespace neap::onnx {
namespace {

struct Place {
  std::string_view op;
  int input;
};

// Inputs that say how, not what.
constexpr Place kSettings[] = {{"Clip", 1},
                               {"Clip", 2},
                               {"Pad", 2},
                               {"Resize", 1},
                               {"Resize", 2},
                               {"Upsample", 1},
                               {"Dropout", 1},
                               {"Pow", 1},
                               {"OneHot", 2},
                               {"Range", 0},
                               {"Range", 1},
                               {"Range", 2},
                               {"QuantizeLinear", 1},
                               {"DequantizeLinear", 1},
                               {"Less", 0},
                               {"Less", 1},
                               {"Greater", 0},
                               {"Greater", 1},
                               {"Equal", 0},
                               {"Equal", 1},
                               {"CastLike", 1}};
constexpr Place kStatistics[] = {{"BatchNormalization", 3}, {"BatchNormalization", 4}};

constexpr std::string_view kLayers[] = {"Conv",
                                        "ConvTranspose",
                                        "Gemm",
                                        "LSTM",
                                        "GRU",
                                        "RNN",
                                        "BatchNormalization",
                                        "LayerNormalization",
                                        "InstanceNormalization",
                                        "GroupNormalization",
                                        "PRelu"};

template <std::size_t kCount>
bool stands_in(const Place (&places)[kCount], const std::string& op, int input) {
  return std::any_of(std::begin(places), std::end(places),
                     [&](const Place& p) { return p.op == op && p.input == input; });
}

void scan(const pb::GraphProto& graph, WeightRoles& roles, int depth) {
  if (depth > 32) return;
  for (const pb::NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      if (stands_in(kStatistics, node.op_type(), i)) {
        roles.buffers.insert(node.input(i));
      } else if (!stands_in(kSettings, node.op_type(), i)) {
        roles.weights.insert(node.input(i));
        const bool is_layer = std::find(std::begin(kLayers), std::end(kLayers), node.op_type()) != std::end(kLayers);
        if (is_layer && i > 0) roles.layers.insert(node.input(i));
      }
    }
    for (const pb::AttributeProto& a : node.attribute()) {
      if (a.has_g()) scan(a.g(), roles, depth + 1);
    }
  }
}

bool looks_like_a_mask(const Constant& c) {
  constexpr float kHuge = 1e30F;
  const std::size_t n = c.data->size() / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) {
    float value = 0;
    std::memcpy(&value, c.data->data() + i * sizeof value, sizeof value);
    if (!(std::abs(value) < kHuge)) return true;
    if (i == 4096 && c.data->size() > (1U << 20)) return false;  // masks begin early: do not read a large file for it
  }
  return false;
}

}  // namespace

bool is_shared_by_accident(const Constant& values) {
  const std::byte* bytes = values.data->data();
  for (std::size_t at = sizeof(float); at < values.data->size(); at += sizeof(float)) {
    if (std::memcmp(bytes, bytes + at, sizeof(float)) != 0) return false;
  }
  return true;
}

WeightRoles roles_of(const pb::GraphProto& graph) {
  WeightRoles roles;
  scan(graph, roles, 0);
  return roles;
}

WeightRole role_of(const std::string& name, const Constant& values, const WeightRoles& roles) {
  if (values.type.dtype != DType::kF32) return WeightRole::kConstant;
  if (roles.buffers.contains(name)) return WeightRole::kBuffer;
  if (roles.layers.contains(name)) return WeightRole::kTrained;
  if (values.type.elements() < 2 || !roles.weights.contains(name)) return WeightRole::kConstant;
  return looks_like_a_mask(values) ? WeightRole::kConstant : WeightRole::kTrained;
}

}  // namespace neap::onnx
