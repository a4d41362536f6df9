// Models of Neap's own as ONNX files, taken in again: the same numbers come out. What other runtimes make of the files
// is tests/models' part.
#include "onnx/graph_export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/file_testing.h"
#include "core/random.h"
#include "neap/builtin_models.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/onnx.h"
#include "neap/recurrent.h"
#include "neap/train.h"
#include "onnx/onnx_model.h"
#include "ops/evaluate.h"
#include "train/state.h"

namespace neap {
namespace {

using Leaves = std::map<std::string, HostTensor>;
using BuildFunction = std::function<void(Builder&)>;

class OwnModel final : public Model {
 public:
  explicit OwnModel(BuildFunction build) : build_(std::move(build)) {}
  std::string name() const override { return "own"; }
  void build(Builder& g, const BuildRequest& /*request*/) const override { build_(g); }

 private:
  BuildFunction build_;
};

constexpr std::int64_t kBatch = 3;

Graph graph_of(const Model& model, BuildRequest request) {
  request.mode = Mode::kEvaluation;
  Builder g(Mode::kEvaluation);
  model.build(g, request);
  return g.take();
}

HostTensor random_tensor(const Tensor& t, std::int64_t bound) {
  HostTensor out(t.type);
  RandomStream random(mix(5, hash_text(t.name)));
  const std::int64_t n = t.type.elements();
  if (t.type.dtype == DType::kI32) {
    for (std::int64_t i = 0; i < n; ++i) {
      out.as<std::int32_t>()[i] = static_cast<std::int32_t>(static_cast<double>(bound) * random.uniform());
    }
    return out;
  }
  for (std::int64_t i = 0; i < n; ++i) out.floats()[i] = static_cast<float>(random.normal());
  return out;
}

// First values, and what starts at 0 or 1 moved away from there: a swapped bias must show.
HostTensor random_state(const Tensor& t) {
  HostTensor out(t.type);
  out.data = initial_value(t, 3);
  if (t.init.kind != Init::Kind::kConstant) return out;
  RandomStream random(mix(6, hash_text(t.name)));
  for (std::int64_t i = 0; i < t.type.elements(); ++i) out.floats()[i] += static_cast<float>(0.3 * random.uniform());
  return out;
}

Leaves random_leaves(const Graph& graph, const Model& model) {
  Leaves out;
  for (const Tensor& t : graph.tensors) {
    if (t.role == Role::kInput) out[t.name] = random_tensor(t, std::max<std::int64_t>(model.bound(t.name), 2));
    if (t.role == Role::kParameter || t.role == Role::kBuffer) out[t.name] = random_state(t);
  }
  return out;
}

WeightReader reader_of(const Graph& graph, const Leaves& leaves) {
  return [&graph, &leaves, moved = std::vector<std::byte>()](std::string_view name) mutable {
    const auto id = graph.find(name);
    if (!id) return std::span<const std::byte>();
    moved = to_outside(graph.at(*id), leaves.at(std::string(name)).data.data());
    return std::span<const std::byte>(moved);
  };
}

std::vector<float> floats_of(const HostTensor& t) { return {t.floats(), t.floats() + t.type.elements()}; }

// Logits with the batch in front, as the file has them.
std::vector<float> logits_of(const Graph& graph, const Leaves& leaves) {
  const Value logits = *onnx::logits_of(graph);
  const HostTensor all = evaluate(graph, leaves)[logits.index];
  const Shape& shape = all.type.shape;
  if (shape.rank() != 3 || shape.size(0) == kBatch) return floats_of(all);
  const std::vector<float> from = floats_of(all);
  std::vector<float> out;
  const std::int64_t width = shape.size(2);
  for (std::int64_t b = 0; b < shape.size(1); ++b) {
    for (std::int64_t t = 0; t < shape.size(0); ++t) {
      const auto row = from.begin() + (t * shape.size(1) + b) * width;
      out.insert(out.end(), row, row + width);
    }
  }
  return out;
}

// What the file computes from the same inputs, taken in by Neap.
std::vector<float> logits_of_file(const std::string& path, const Leaves& leaves, const BuildRequest& request) {
  const onnx::OnnxModel model(path);
  const Graph graph = graph_of(model, request);
  Leaves here;
  for (const Tensor& t : graph.tensors) {
    if (t.role == Role::kParameter || t.role == Role::kBuffer) {
      here[t.name] = HostTensor(t.type);
      here[t.name].data = initial_value(t, 0);
    }
    if (t.role == Role::kInput && leaves.contains(t.name)) here[t.name] = leaves.at(t.name);
  }
  const Graph bound = bind(graph, {});
  return floats_of(evaluate(bound, here)[bound.output("logits")->index]);
}

void expect_near(const std::vector<float>& want, const std::vector<float>& got) {
  ASSERT_EQ(want.size(), got.size());
  float largest = 0;
  for (const float w : want) largest = std::max(largest, std::abs(w));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * largest) << "at " << i;
}

// Writes the model and takes it in again; gives the file.
std::shared_ptr<const onnx::pb::ModelProto> round_trip(const Model& model, BuildRequest request) {
  const testing::TempDir folder;
  const std::string path = (folder / "model.onnx").string();
  request.batch = kBatch;
  const Graph graph = bind(graph_of(model, request), {{"batch", kBatch}});
  const Leaves leaves = random_leaves(graph, model);
  save_onnx(model, request, path, reader_of(graph, leaves));
  request.loss = "cross-entropy";
  expect_near(logits_of(graph, leaves), logits_of_file(path, leaves, request));
  return onnx::parse_model(path);
}

int count(const onnx::pb::ModelProto& model, std::string_view op) {
  const auto& nodes = model.graph().node();
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.op_type() == op; }));
}

std::set<std::string> initializers(const onnx::pb::ModelProto& model) {
  std::set<std::string> out;
  for (const auto& t : model.graph().initializer()) {
    if (!t.name().starts_with('/')) out.insert(t.name());
  }
  return out;
}

struct Case {
  const char* model;
  BuildRequest request;
};
// NOLINTNEXTLINE(readability-identifier-naming): gtest looks for this name
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

class BuiltinExport : public ::testing::TestWithParam<Case> {};

// Every weight is there under its own name, or with the order of its gates behind it.
TEST_P(BuiltinExport, ComesBackTheSame) {
  const auto model = open_builtin_model(GetParam().model);
  const auto file = round_trip(*model, GetParam().request);
  EXPECT_EQ(file->opset_import(0).version(), 17);
  EXPECT_EQ(file->ir_version(), 8);
  EXPECT_EQ(file->graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(file->graph().output(0).name(), "logits");
  EXPECT_EQ(file->graph().output(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  std::set<std::string> names = initializers(*file);
  for (const Tensor& t : graph_of(*model, GetParam().request).tensors) {
    if (t.role != Role::kParameter && t.role != Role::kBuffer) continue;
    EXPECT_EQ(names.erase(t.name) + names.erase(t.name + "_iofc") + names.erase(t.name + "_zrh"), 1U) << t.name;
  }
  EXPECT_TRUE(names.empty()) << *names.begin();
}

INSTANTIATE_TEST_SUITE_P(
    All, BuiltinExport,
    ::testing::Values(Case{"mlp:hidden=16", {.image = 6}}, Case{"cnn", {.image = 8}}, Case{"resnet20", {.image = 16}},
                      Case{"resnet18", {.image = 8}}, Case{"resnet50", {.image = 32}},
                      Case{"gpt-mini:width=24,layers=2,heads=3,vocab=40,context=16", {.length = 16}},
                      Case{"gpt2:width=24,layers=2,heads=3,vocab=40,context=16", {.length = 10}},
                      Case{"bert-mini:width=24,layers=2,heads=3,vocab=40,context=16", {.length = 12}},
                      Case{"lstm-lm:hidden=12,vocab=20,chunk=4", {.length = 10}},
                      Case{"gru-lm:hidden=12,vocab=20,chunk=4", {.length = 10}},
                      Case{"lstm-lm:hidden=12,vocab=20,layers=1", {.length = 5}}),
    [](const auto& test) {
      std::string name = std::string(test.param.model).substr(0, std::string_view(test.param.model).find(':'));
      std::erase(name, '-');
      return name + std::to_string(test.index);
    });

// By name, as the program opens them, for images of another size than the model's own.
TEST(GraphExport, ATrainedModelComesBackWithTheSameBits) {
  const testing::TempDir folder;
  const std::string path = (folder / "cnn.onnx").string();
  Trainer trainer({.model = "cnn", .batch = 4, .image = 12});
  for (int i = 0; i < 3; ++i) trainer.advance();
  trainer.save(path);
  const Trainer again({.model = path, .batch = 4, .loss = "cross-entropy"});
  EXPECT_EQ(again.summary().weights_hash, trainer.summary().weights_hash);
}

TEST(GraphExport, ImagesAreTurnedOnceOnTheirWayIn) {
  EXPECT_EQ(count(*round_trip(*open_builtin_model("resnet20"), {.image = 16}), "Transpose"), 1);
}

TEST(GraphExport, ChunksBecomeOneNodeALayer) {
  const auto file = round_trip(*open_builtin_model("lstm-lm:hidden=12,vocab=20,layers=3,chunk=2"), {.length = 9});
  EXPECT_EQ(count(*file, "LSTM"), 3);
  EXPECT_EQ(count(*file, "Slice") + count(*file, "GRU"), 0);
}

// Both ways, and with a state that something else reads in between.
TEST(GraphExport, RecurrentLayersOfAllKinds) {
  const auto layers = [](RecurrentOptions options, auto layer, bool keeps_state) {
    return OwnModel([=](Builder& g) {
      const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 7, 5});
      const Value target = g.input("label", DType::kI32, {Dim::symbol("batch")});
      const Value steps = g("transpose", {x}, {{"perm", Ints{1, 0, 2}}});
      const RecurrentOutput out = layer(g, steps, 6, options);
      const Value last = g("slice", {out.y}, {{"axes", Ints{0}}, {"starts", Ints{6}}, {"ends", Ints{7}}});
      Value y = g("reshape", {last}, {{"shape", Shape{Dim::symbol("batch"), options.bidirectional ? 12 : 6}}});
      if (keeps_state) y = g("concat", {y, out.h_n[0]}, {{"axis", std::int64_t{1}}});
      cross_entropy_loss(g, linear(g, "head", y, 4), target);
    });
  };
  using Sequence = RecurrentOutput (*)(Builder&, Value, std::int64_t, const RecurrentOptions&);
  for (const Sequence layer : {Sequence(lstm), Sequence(gru), Sequence(rnn)}) {
    round_trip(layers({.layers = 2, .chunk = 3, .bidirectional = true}, layer, false), {});
    round_trip(layers({.chunk = 3, .bias = false}, layer, true), {});
  }
  round_trip(layers({.chunk = 4, .activation = "relu"}, Sequence(rnn), true), {});
}

// Ops in a chain, on images in the order of axes that a convolution leaves them in.
TEST(GraphExport, OrderOfAxesIsCarriedAlong) {
  const OwnModel model([](Builder& g) {
    const Value x = g.input("image", DType::kF32, {Dim::symbol("batch"), 6, 6, 2});
    const Value target = g.input("label", DType::kI32, {Dim::symbol("batch")});
    const Value y = conv2d(g, "conv", x, 4, 3, {.pad = 1, .groups = 2, .bias = true});
    Value z = g("add", {y, g.parameter("shift", {4}, Init::normal(1))});
    z = g("concat", {g("silu", {y}), g("mul", {z, g.scalar(0.5)})}, {{"axis", std::int64_t{3}}});
    z = g("average_pool", {z}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}});
    z = g("slice", {z}, {{"axes", Ints{3, 1}}, {"starts", Ints{1, 0}}, {"ends", Ints{7, 2}}});
    z = g("softmax", {z}, {{"axis", std::int64_t{3}}});
    z = g("reduce_mean", {g("gelu", {z})}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
    const Value flat = g("flatten", {g("transpose", {z}, {{"perm", Ints{0, 2, 1}}})}, {{"axis", std::int64_t{1}}});
    cross_entropy_loss(g, linear(g, "head", flat, 3), target);
  });
  round_trip(model, {});
}

TEST(GraphExport, ListsEverythingThatOnnxHasNothingFor) {
  const OwnModel model([](Builder& g) {
    const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 4});
    Value y = g("cumsum", {x}, {{"axis", std::int64_t{1}}}, "first");
    y = g("relu", {y});
    y = g("hardmax", {y}, {}, "second");
    cross_entropy_loss(g, y, g.input("label", DType::kI32, {Dim::symbol("batch")}));
  });
  const auto save = [&] { save_onnx(model, {.batch = 2}, "never.onnx", {}); };
  testing::expect_user_error(save, {"never.onnx", "own", "'first' (cumsum)", "'second' (hardmax)"});
  EXPECT_EQ(testing::user_error(save).find("relu"), std::string::npos);
}

TEST(GraphExport, AModelWithoutLogitsIsRefused) {
  const OwnModel model([](Builder& g) {
    g.output("loss",
             g("reduce_mean", {g.input("x", DType::kF32, {Dim::symbol("batch"), 4})}, {{"keepdims", std::int64_t{0}}}));
  });
  testing::expect_user_error([&] { save_onnx(model, {.batch = 2}, "never.onnx", {}); }, {"never.onnx", "logits"});
}

TEST(GraphExport, AWeightOfAnotherSizeIsRefused) {
  const testing::TempDir folder;
  const auto model = open_builtin_model("mlp:hidden=16");
  const std::vector<std::byte> few(8);
  const auto save = [&] {
    save_onnx(*model, {.batch = 2}, (folder / "m.onnx").string(),
              [&](std::string_view) { return std::span<const std::byte>(few); });
  };
  testing::expect_user_error(save, {"fc1.weight", "8 bytes"});
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

}  // namespace
}  // namespace neap
