#include "tests/random_graph.h"

#include <fmt/format.h>

#include <cstring>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "core/random.h"
#include "train/state.h"

namespace neap {
namespace {

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kWidth = 48;       // 64-byte lines end inside rows
constexpr std::int64_t kWideWidth = 208;  // weights of many pages, activations of two

class Maker {
 public:
  Maker(std::uint64_t seed, std::int64_t width) : random_(seed), width_(width) {}

  Graph run(bool is_trained) {
    pool_ = {g_.input("x", DType::kF32, {kRows, width_})};
    shared_ = g_.parameter("shared", {width_, width_}, Init::normal(0.1));
    const auto nodes = 4 + random_.below(20);
    for (std::uint64_t i = 0; i < nodes; ++i) pool_.push_back(grow(i));
    Value sum = pool_.back();
    for (int i = 0; i < 3; ++i) sum = g_("add", {sum, pick()});
    const Value loss = g_("reduce_mean", {g_("mul", {sum, sum})}, {{"keepdims", std::int64_t{0}}}, "loss");
    g_.output("loss", loss);
    if (is_trained) {
      append_updates(g_, differentiate(g_, loss, g_.graph().with_role(Role::kParameter)), {.name = "sgd", .lr = 0.1});
    } else {
      g_.output("sum", sum);
    }
    return g_.take();
  }

 private:
  Value pick() { return pool_[random_.below(pool_.size())]; }

  Value weight(std::uint64_t i) {
    if (random_.below(3) == 0) return shared_;
    return g_.parameter(fmt::format("w{}", i), {width_, width_}, Init::normal(0.1));
  }

  // Through the halves of a tensor and back: slices are views, the concatenation is made of its parts.
  Value halves(Value x) {
    const Value top = g_("slice", {x}, {{"starts", Ints{0}}, {"ends", Ints{kRows / 2}}, {"axes", Ints{0}}});
    const Value low = g_("slice", {x}, {{"starts", Ints{kRows / 2}}, {"ends", Ints{kRows}}, {"axes", Ints{0}}});
    return g_("concat", {g_("gelu", {low}), g_("tanh", {top})}, {{"axis", std::int64_t{0}}});
  }

  Value grow(std::uint64_t i) {
    const Value x = pick();
    switch (random_.below(9)) {
      case 0: return g_("relu", {x});
      case 1: return g_("gelu", {x});
      case 2: return g_("add", {x, pick()});
      case 3: return g_("mul", {x, pick()});
      case 4: return g_("linear", {x, weight(i)});
      case 5: return g_("softmax", {x});
      case 6: return halves(x);
      case 7: {
        const Value flat = g_("reshape", {x}, {{"shape", Shape{kRows * width_}}});
        return g_("reshape", {g_("sigmoid", {flat})}, {{"shape", Shape{kRows, width_}}});
      }
      default: {
        const auto key = static_cast<std::int64_t>(i);
        return g_("dropout", {x, g_.random_key()}, {{"p", 0.25}, {"key", key}});
      }
    }
  }

  RandomStream random_;
  std::int64_t width_;
  Builder g_;
  Values pool_;
  Value shared_;
};

}  // namespace

Graph random_training_graph(std::uint64_t seed) { return Maker(seed, kWidth).run(true); }

Graph random_inference_graph(std::uint64_t seed) { return Maker(seed, kWideWidth).run(false); }

Leaves leaves_of(const Graph& graph, bool is_constant) {
  Leaves out;
  float next = 0.5F;
  for (const Tensor& t : graph.tensors) {
    if (t.producer) continue;
    HostTensor value(t.type);
    if (t.name == kHyperInput) {
      const Hyper hyper = hyper_at(1, 0.1, {.name = "sgd"});
      std::memcpy(value.data.data(), hyper.data(), sizeof hyper);
    } else if (is_constant && t.type.dtype == DType::kF32) {
      next = next > 0.05F ? next * 0.5F : 0.75F;
      for (std::int64_t i = 0; i < t.type.elements(); ++i) value.floats()[i] = next;
    } else if (is_state(t.role)) {
      value.data = initial_value(t, 3);
    } else if (t.type.dtype == DType::kF32) {
      RandomStream random(5);
      for (std::int64_t i = 0; i < t.type.elements(); ++i) value.floats()[i] = static_cast<float>(random.normal());
    }
    out[t.name] = std::move(value);
  }
  return out;
}

}  // namespace neap
