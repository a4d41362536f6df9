#include "policy/ppo/actor_critic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "neap/layers.h"

namespace neap::ppo {
namespace {

constexpr std::int64_t kUnits = 32;
constexpr std::int64_t kCriticUnits = 16;
constexpr std::int64_t kParts = ActorCritic::kBatch / ActorCritic::kPart;
static_assert(kParts > 1 && ActorCritic::kBatch % ActorCritic::kPart == 0);
constexpr float kForbidden = -1e9F;

const Attrs kOverActions = {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}};

struct Heads {
  Value policy, log_policy, value;
};

// Inputs: rows [batch * actions, features], mask [batch, actions] (0 or kForbidden), share [batch, actions] (1 / n
// where allowed).
Heads build(Builder& g, std::int64_t batch, std::int64_t actions) {
  const Value rows = g.input("rows", DType::kF32, {batch * actions, static_cast<std::int64_t>(kFeatures)});
  const Value mask = g.input("mask", DType::kF32, {batch, actions});
  const Value share = g.input("share", DType::kF32, {batch, actions});
  // Two trunks: values are as large as sums of rewards, and on a common one their gradients would drive the units into
  // saturation before the actor has learnt to tell actions apart.
  const Value first = g("tanh", {linear(g, "first", rows, kUnits)});
  const Value second = g("tanh", {linear(g, "second", first, kUnits)});
  const Value judge = g("tanh", {linear(g, "judge", rows, kCriticUnits)});
  const auto head = [&](const char* name, Value from) {
    return g("reshape", {linear(g, name, from, 1, {.init_std = 0.02})}, {{"shape", Shape{batch, actions}}});
  };
  const Value scores = g("add", {head("actor", second), mask});
  Heads out;
  out.policy = g("softmax", {scores});
  out.log_policy = g("log_softmax", {scores});
  out.value = g("reduce_sum", {g("mul", {head("critic", judge), share})}, kOverActions);
  g.output("policy", out.policy);
  g.output("value", out.value);
  return out;
}

Graph acting_graph(std::size_t actions) {
  Builder g(Mode::kEvaluation);
  build(g, 1, static_cast<std::int64_t>(actions));
  return g.take();
}

OptimizerOptions optimizer() { return {.name = "adam", .weight_decay = 0, .clip = 1}; }

Graph learning_graph(std::size_t actions, const PpoOptions& o) {
  Builder g(Mode::kTraining);
  constexpr std::int64_t kBatch = ActorCritic::kPart;
  const Heads y = build(g, kBatch, static_cast<std::int64_t>(actions));
  const auto column = [&](const char* name) { return g.input(name, DType::kF32, {kBatch, 1}); };
  const Value taken = g.input("taken", DType::kF32, {kBatch, static_cast<std::int64_t>(actions)});
  const Value advantage = column("advantage");
  const Value of_taken = g("reduce_sum", {g("mul", {y.policy, taken})}, kOverActions);
  const Value acted = g("add", {g("mul", {of_taken, g.scalar(1 - o.epsilon)}), column("explore")});
  const Value ratio = g("mul", {acted, column("inverse_old")});
  g.output("ratio", ratio);
  const Value clipped = g("max", {g("min", {ratio, g.scalar(1 + o.clip)}), g.scalar(1 - o.clip)});
  // min(a, b) as a - relu(a - b): where they are equal, which is where learning starts, the gradient is a's.
  const Value free = g("mul", {ratio, advantage});
  const Value gain = g("sub", {free, g("relu", {g("sub", {free, g("mul", {clipped, advantage})})})});
  const Value off = g("square", {g("sub", {y.value, column("target")})});
  const Value entropy = g("neg", {g("reduce_sum", {g("mul", {y.policy, y.log_policy})}, kOverActions)});
  const Value loss =
      g("sub", {g("sub", {g("mul", {off, g.scalar(0.5)}), gain}), g("mul", {entropy, g.scalar(o.entropy)})});
  const Value weighed = g("mul", {loss, column("weight")});
  g.output("loss", g("reduce_sum", {weighed}, {{"keepdims", std::int64_t{0}}}, "loss"));
  return with_training(g, optimizer(), kParts);
}

// Row `i` of what both networks read.
void put(Network& network, std::size_t i, const std::vector<Row>& rows, const std::vector<bool>& allowed) {
  const std::size_t n = rows.size();
  const auto count = static_cast<float>(std::count(allowed.begin(), allowed.end(), true));
  float* to = network.floats("rows").data() + i * n * kFeatures;
  float* mask = network.floats("mask").data() + i * n;
  float* share = network.floats("share").data() + i * n;
  for (std::size_t a = 0; a < n; ++a) {
    std::ranges::copy(rows[a], to + a * kFeatures);
    mask[a] = allowed[a] ? 0 : kForbidden;
    share[a] = allowed[a] ? 1 / count : 0;
  }
}

}  // namespace

ActorCritic::ActorCritic(std::size_t actions, const PpoOptions& options, std::uint64_t seed)
    : actions_(actions), options_(options), seed_(seed), acting_(acting_graph(actions), seed) {
  weights_ = acting_.weights();
  output_.policy.resize(actions);
}

const ActorCritic::Output& ActorCritic::evaluate(const std::vector<Row>& rows, const std::vector<bool>& allowed) {
  require(rows.size() == actions_ && allowed.size() == actions_, "a row for each action");
  put(acting_, 0, rows, allowed);
  acting_.run();
  const std::span<float> policy = acting_.floats("policy");
  for (std::size_t a = 0; a < actions_; ++a) output_.policy[a] = allowed[a] ? double{policy[a]} : 0;
  output_.value = double{acting_.floats("value")[0]};
  return output_;
}

void ActorCritic::put_part(std::span<const Moment> part, float weight) {
  Network& net = *learning_;
  for (const char* name : {"weight", "taken", "advantage", "explore", "inverse_old", "target"}) {
    std::ranges::fill(net.floats(name), 0.0F);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(kPart); ++i) {
    const Moment& m = part[i % part.size()];  // what is left over repeats, and weighs nothing
    put(net, i, m.rows, m.allowed);
    if (i >= part.size()) continue;
    net.floats("weight")[i] = weight;
    net.floats("taken")[i * actions_ + m.action] = 1;
    net.floats("advantage")[i] = static_cast<float>(m.advantage);
    net.floats("explore")[i] = static_cast<float>(m.explore);
    net.floats("inverse_old")[i] = static_cast<float>(1 / std::max(m.probability, 1e-6));
    net.floats("target")[i] = static_cast<float>(m.target);
  }
}

void ActorCritic::train_batch(std::span<const Moment> batch) {
  const float weight = static_cast<float>(kParts) / static_cast<float>(batch.size());
  constexpr auto kRows = static_cast<std::size_t>(kPart);
  ++updates_;
  ratios_.clear();
  for (std::size_t first = 0; first < batch.size(); first += kRows) {
    const std::size_t count = std::min(kRows, batch.size() - first);
    put_part(batch.subspan(first, count), weight);
    learning_->train(updates_, options_.lr, optimizer(),
                     {.is_first = first == 0, .is_last = first + count == batch.size(), .parts = kParts});
    const std::span<float> ratio = learning_->floats("ratio").first(count);
    ratios_.insert(ratios_.end(), ratio.begin(), ratio.end());
  }
}

void ActorCritic::learn(std::span<const Moment> moments, int passes) {
  if (moments.empty()) return;
  if (learning_ == nullptr) {
    learning_ = std::make_unique<Network>(learning_graph(actions_, options_), seed_);
    learning_->load(weights_);
  }
  for (int pass = 0; pass < passes; ++pass) {
    constexpr auto kRows = static_cast<std::size_t>(kBatch);
    for (std::size_t first = 0; first < moments.size(); first += kRows) {
      train_batch(moments.subspan(first, std::min(kRows, moments.size() - first)));
    }
  }
  weights_ = learning_->weights();
  acting_.load(weights_);
}

void ActorCritic::load(const NetworkWeights& weights) {
  for (const auto& [name, values] : weights_) {
    const auto given = weights.find(name);
    if (given == weights.end() || given->second.size() != values.size()) {
      throw UserError(fmt::format("a policy for recurrent layers: '{}' is missing or of another size", name));
    }
    const auto is_sane = [](float x) { return std::isfinite(x) && std::abs(x) < 1e4F; };
    if (!std::ranges::all_of(given->second, is_sane)) {
      throw UserError(fmt::format("a policy for recurrent layers: '{}' has values that are no weights", name));
    }
  }
  weights_ = weights;
  acting_.load(weights_);
  if (learning_ != nullptr) {
    learning_->load(weights_);
    learning_->forget_moments();
  }
}

std::int64_t ActorCritic::bytes() const {
  return acting_.arena_bytes() + (learning_ != nullptr ? learning_->arena_bytes() : 0) + bytes_of(weights_);
}

}  // namespace neap::ppo
