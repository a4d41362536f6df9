// Models that do not come by name: how they are built, trained, and get their weights back.
#include "neap/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/file_testing.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/train.h"
#include "train/model_spec.h"
#include "train/safetensors.h"

namespace neap {
namespace {

Values floats(Builder& g, const BuildRequest& r) {
  const Value x = g.input("x", DType::kF32, {r.batch, 4, 4, 2});
  return {x, g.input("y", DType::kF32, {r.batch, 3})};
}

// A convolution, a norm and a layer over [batch, 4, 4, 2], trained to give y.
class Small : public Model {
 public:
  std::string name() const override { return "small"; }
  std::int64_t batch() const override { return 8; }
  void build(Builder& g, const BuildRequest& request) const override {
    requests.push_back(request);
    if (request.frozen_batch_norm) g.freeze_batch_norm(*request.frozen_batch_norm);
    const Values in = floats(g, request);
    Value x = conv2d(g, "conv", in[0], 5, 3, {.pad = 1});
    x = batch_norm(g, "norm", x, {.relu = true});
    x = g("reshape", {x}, {{"shape", Shape{request.batch, 80}}});
    const Value loss = g("mse", {linear(g, "fc", x, 3), in[1]});
    g.output("loss", loss);
  }
  void save(const std::string& path, const BuildRequest& request, const WeightReader& weight) const override {
    EXPECT_EQ(request.batch, requests[0].batch);
    saved_to = path;
    const auto bytes = weight("conv.weight");
    conv.resize(bytes.size() / sizeof(float));
    std::memcpy(conv.data(), bytes.data(), bytes.size());
    has_unknown = weight("nobody").data() != nullptr || weight("fc.weight.m").data() != nullptr;
  }

  mutable std::vector<BuildRequest> requests;
  mutable std::string saved_to;
  mutable std::vector<float> conv;
  mutable bool has_unknown = false;
};

TrainOptions few_steps() { return {.steps = 3, .seed = 7}; }

TEST(Model, OfOnesOwnTrainsAndIsNamedInTheReports) {
  const auto model = std::make_shared<Small>();
  Trainer trainer(model, few_steps());
  const float first = trainer.advance().loss;
  for (int i = 0; i < 20; ++i) trainer.advance();
  EXPECT_LT(trainer.advance().loss, first);
  EXPECT_EQ(trainer.summary().model, "small");
  EXPECT_EQ(trainer.summary().batch, 8);
  EXPECT_EQ(plan_training(model, few_steps()).peak_bytes, trainer.plan().peak_bytes);
}

TEST(Model, IsToldWhatTheOptionsSay) {
  const auto model = std::make_shared<Small>();
  TrainOptions options = few_steps();
  options.batch = 6;
  options.length = 5;
  options.image = 9;
  options.loss = "mse";
  const ModelSpec spec = make_spec(model, options);
  build_training(spec, options);
  build_evaluation(spec, 3);
  ASSERT_EQ(model->requests.size(), 2U);
  const BuildRequest& training = model->requests[0];
  EXPECT_EQ(training.mode, Mode::kTraining);
  EXPECT_EQ(training.batch, 6);
  EXPECT_EQ(training.length, 5);
  EXPECT_EQ(training.image, 9);
  EXPECT_EQ(training.loss, "mse");
  EXPECT_FALSE(training.frozen_batch_norm.has_value());
  EXPECT_EQ(model->requests[1].mode, Mode::kEvaluation);
  EXPECT_EQ(model->requests[1].batch, 3);
}

// Without a word the norm is trained; frozen its statistics stay as they are.
TEST(Model, BatchNormIsFrozenOnlyWhenAsked) {
  const auto has_op = [](const TrainOptions& o, std::string_view suffix) {
    const Graph g = build_training(make_spec(std::make_shared<Small>(), o), o);
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.name.ends_with(suffix); });
  };
  TrainOptions options = few_steps();
  EXPECT_TRUE(has_op(options, "norm.running"));
  options.frozen_batch_norm = false;
  EXPECT_TRUE(has_op(options, "norm.running"));
  options.frozen_batch_norm = true;
  EXPECT_FALSE(has_op(options, "norm.running"));
}

TEST(Model, FilesHaveTheLayoutFromOutside) {
  const testing::TempDir folder;
  const auto model = std::make_shared<Small>();
  Trainer trainer(model, few_steps());
  trainer.advance();
  trainer.save((folder / "w.safetensors").string());
  trainer.save((folder / "w.other").string());
  const SafeTensorsFile file(folder / "w.safetensors");
  ASSERT_NE(file.find("conv.weight"), nullptr);
  EXPECT_EQ(file.find("conv.weight")->shape, (Shape{5, 2, 3, 3}));
  EXPECT_EQ(model->saved_to, (folder / "w.other").string());
  ASSERT_EQ(model->conv.size(), 90U);
  EXPECT_EQ(std::memcmp(model->conv.data(), file.find("conv.weight")->data.data(), 360), 0);
  EXPECT_FALSE(model->has_unknown);

  TrainOptions again = few_steps();
  again.init = folder / "w.safetensors";
  EXPECT_EQ(Trainer(model, again).summary().weights_hash, trainer.summary().weights_hash);
}

TEST(Model, ACheckpointInOtherNumbersIsRefused) {
  for (const auto& [first, second] : {std::pair("f32", "bf16"), std::pair("bf16", "f32")}) {
    const testing::TempDir folder;
    TrainOptions options;
    options.model = "mlp";
    options.batch = 8;
    options.compute = first;
    options.checkpoint = folder / "run";
    Trainer(options).checkpoint();
    options.resume = true;
    Trainer{options};
    options.compute = second;
    testing::expect_user_error([&] { Trainer{options}; }, {"compute", first, second});
  }
}

TEST(Model, CheckpointsGoOnToTheSameBits) {
  const testing::TempDir folder;
  const auto model = std::make_shared<Small>();
  TrainOptions options = few_steps();
  Trainer whole(model, options);
  for (int i = 0; i < 3; ++i) whole.advance();
  options.checkpoint = folder / "run";
  Trainer first(model, options);
  first.advance();
  first.checkpoint();
  options.resume = true;
  Trainer second(model, options);
  EXPECT_EQ(second.step(), 1);
  for (int i = 0; i < 2; ++i) second.advance();
  EXPECT_EQ(second.summary().weights_hash, whole.summary().weights_hash);
}

enum class Fault { kNoBatch, kOpenAxis, kNoLoss, kWideLoss };

class Wrong final : public Small {
 public:
  explicit Wrong(Fault fault) : fault_(fault) {}
  void build(Builder& g, const BuildRequest& r) const override {
    const Dim second = fault_ == Fault::kOpenAxis ? Dim::symbol("time") : Dim(2);
    const Value x = g.input("x", DType::kF32, {fault_ == Fault::kNoBatch ? Dim(3) : Dim(r.batch), second});
    if (fault_ != Fault::kNoLoss) g.output("loss", fault_ == Fault::kWideLoss ? x : g("mse", {x, x}));
  }

 private:
  Fault fault_;
};

TEST(Model, WithoutLossOrBatchIsRefused) {
  const auto plan = [](Fault fault) { return [fault] { plan_training(std::make_shared<Wrong>(fault), few_steps()); }; };
  testing::expect_user_error(plan(Fault::kNoBatch), {"small", "'x'", "[3,2]", "batch of 8"});
  testing::expect_user_error(plan(Fault::kOpenAxis), {"small", "'x'", "[8,time]"});
  testing::expect_user_error(plan(Fault::kNoLoss), {"small", "--loss"});
  testing::expect_user_error(plan(Fault::kWideLoss), {"small", "--loss"});
}

TEST(Model, BuiltInIsRefusedAnotherLoss) {
  TrainOptions options{.model = "mlp", .loss = "mse"};
  testing::expect_user_error([&] { plan_training(options); }, {"--loss mse", "mlp"});
  options.loss = "cross-entropy";
  EXPECT_GT(plan_training(options).peak_bytes, 0);
}

}  // namespace
}  // namespace neap
