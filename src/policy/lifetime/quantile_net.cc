#include "policy/lifetime/quantile_net.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/random.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/recurrent.h"
#include "policy/lifetime/score.h"

namespace neap {
namespace {

constexpr std::int64_t kSteps = 64;  // events a run
constexpr std::int64_t kLanes = 8;   // sequences that train side by side
constexpr double kSharpness = 4;     // of trust: a guess is mostly right or wrong, seldom half right

Value weights_of(Builder& g, double (*of)(double)) {
  std::array<float, kQuantiles.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(of(kQuantiles[i]));
  std::vector<std::byte> bytes(sizeof values);
  std::memcpy(bytes.data(), values.data(), sizeof values);
  return g.constant("", {DType::kF32, {static_cast<std::int64_t>(values.size())}}, std::move(bytes));
}

// Mean over quantiles, weighted sum over events: q * relu(d) + (1 - q) * relu(-d), d = target - prediction.
void add_pinball(Builder& g, Value predicted, std::int64_t lanes) {
  const Value target = g.input("target", DType::kF32, {kSteps, lanes, 1});
  const Value weight = g.input("weight", DType::kF32, {kSteps, lanes, 1});
  const Value d = g("sub", {target, predicted});
  const Value above = g("mul", {g("relu", {d}), weights_of(g, [](double q) { return q / 3; })});
  const Value below = g("mul", {g("relu", {g("neg", {d})}), weights_of(g, [](double q) { return (1 - q) / 3; })});
  const Value pinball = g("mul", {g("add", {above, below}), weight});
  g.output("loss", g("reduce_sum", {pinball}, {{"keepdims", std::int64_t{0}}}, "loss"));
}

void build(Builder& g, std::int64_t lanes) {
  const auto ids = [&](const char* name, std::int32_t rows, std::int64_t width) {
    return embedding(g, name, g.input(std::string(name) + ".id", DType::kI32, {kSteps, lanes}), rows, width, 0.03);
  };
  const Value numbers = g.input("numbers", DType::kF32, {kSteps, lanes, static_cast<std::int64_t>(kNumbers)});
  const Value x = g("concat", {numbers, ids("op", kOpRows, 4), ids("layer", kLayerRows, 4), ids("site", kSiteRows, 8)},
                    {{"axis", std::int64_t{2}}});
  const Shape state = {lanes, kLifetimeUnits};
  const RecurrentOutput lstm_out =
      lstm(g, x, kLifetimeUnits,
           {.chunk = kSteps, .h0 = {g.input("h", DType::kF32, state)}, .c0 = {g.input("c", DType::kF32, state)}});
  const auto number = [&](const char* name) { return g.input(name, DType::kF32, {kSteps, lanes, 1}); };
  constexpr auto kCount = static_cast<std::int64_t>(kQuantiles.size());
  const Value head = linear(g, "head", lstm_out.y, 2 * kCount, {.init_std = 0.02});
  const auto part = [&](std::int64_t from) {
    return g("slice", {head}, {{"axes", Ints{2}}, {"starts", Ints{from}}, {"ends", Ints{from + kCount}}});
  };
  const Value said = g("add", {part(0), g.scalar(kUnknownLog)});
  const Value trust = g("sigmoid", {g("mul", {part(kCount), g.scalar(kSharpness)})});
  const Value correction = g("mul", {g("mul", {trust, number("known")}), g("sub", {number("base"), said})});
  const Value predicted = g("add", {said, correction});
  g.output("quantiles", predicted);
  g.output("h_n", lstm_out.h_n[0]);
  g.output("c_n", lstm_out.c_n[0]);
}

Graph prediction_graph() {
  Builder g(Mode::kEvaluation);
  build(g, 1);
  return g.take();
}

OptimizerOptions optimizer() { return {.name = "adam", .weight_decay = 0, .clip = 1}; }

Graph training_graph() {
  Builder g(Mode::kTraining);
  build(g, kLanes);
  add_pinball(g, g.graph().output("quantiles").value(), kLanes);
  return with_training(g, optimizer());
}

// The inputs of a network for some lanes, filled lane by lane. What no event fills is 0.
class Inputs {
 public:
  Inputs(Network& network, std::int64_t lanes)
      : lanes_(static_cast<std::size_t>(lanes)),
        numbers_(network.floats("numbers")),
        op_(network.integers("op.id")),
        layer_(network.integers("layer.id")),
        site_(network.integers("site.id")),
        base_(network.floats("base")),
        known_(network.floats("known")) {}

  // Events of `s` from `first` on; the number of them.
  std::size_t put(const Sequence& s, std::size_t first, std::size_t lane) {
    const std::size_t count = first < s.size() ? std::min<std::size_t>(kSteps, s.size() - first) : 0;
    for (std::size_t t = 0; t < static_cast<std::size_t>(kSteps); ++t) {
      const std::size_t to = t * lanes_ + lane;
      const std::size_t from = first + t;
      const bool is_there = t < count;
      float* numbers = numbers_.data() + to * kNumbers;
      if (is_there) {
        std::copy_n(s.numbers.data() + from * kNumbers, kNumbers, numbers);
      } else {
        std::fill_n(numbers, kNumbers, 0.0F);
      }
      op_[to] = is_there ? s.op[from] : 0;
      layer_[to] = is_there ? s.layer[from] : 0;
      site_[to] = is_there ? s.site[from] : 0;
      base_[to] = is_there ? s.base[from] : 0;
      known_[to] = is_there ? s.known[from] : 0;
    }
    return count;
  }

 private:
  std::size_t lanes_;
  std::span<float> numbers_;
  std::span<std::int32_t> op_, layer_, site_;
  std::span<float> base_, known_;
};

// Whole ticks. The outer quantiles are half a percent further out, then rounded; a third of a tick changes nothing.
Lifetime lifetime_of(std::array<float, 3> logs) {
  constexpr double kMargin = 0.005;
  constexpr double kThird = 1.0 / 3;
  constexpr double kLargestLog = 20;
  std::ranges::sort(logs);
  const auto ticks = [&](std::size_t q) { return std::exp(std::min(kLargestLog, double{logs[q]})); };
  return {.p10 = std::max(1.0, std::floor(ticks(0) * (1 - kMargin) + kThird)),
          .p50 = std::max(1.0, std::round(ticks(1))),
          .p90 = std::max(1.0, std::ceil(ticks(2) * (1 + kMargin) - kThird))};
}

// Sequences in lanes, side by side. A lane whose sequence is over takes the next one of the shuffled list, and its
// state starts anew.
class Lanes {
 public:
  Lanes(Network& network, const std::vector<const Sequence*>& steps, const FitOptions& options)
      : network_(network), inputs_(network, kLanes), options_(options), random_(mix(options.seed, hash_text("fit"))) {
    for (const Sequence* s : steps) {
      blind_.push_back(without_history(*s));
      if (options.uses_history) seen_.push_back(s);
    }
  }

  void fill() {
    const std::span<float> target = network_.floats("target");
    const std::span<float> weight = network_.floats("weight");
    std::size_t events = 0;
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(kLanes); ++lane) {
      Lane& l = lanes_[lane];
      if (l.sequence == nullptr || l.at >= l.sequence->size()) start(lane);
      const std::size_t count = inputs_.put(*l.sequence, l.at, lane);
      for (std::size_t t = 0; t < static_cast<std::size_t>(kSteps); ++t) {
        const bool is_there = t < count;
        target[t * kLanes + lane] = is_there ? l.sequence->target[l.at + t] : 0;
        weight[t * kLanes + lane] = is_there ? 1.0F : 0.0F;
      }
      l.at += static_cast<std::size_t>(kSteps);
      events += count;
    }
    for (float& w : weight) w /= static_cast<float>(std::max<std::size_t>(1, events));
  }

  // States go on to the next events.
  void carry() {
    for (const auto& [from, to] : {std::pair{"h_n", "h"}, std::pair{"c_n", "c"}}) {
      std::ranges::copy(network_.floats(from), network_.floats(to).begin());
    }
  }

 private:
  struct Lane {
    const Sequence* sequence = nullptr;
    std::size_t at = 0;
  };

  void start(std::size_t lane) {
    if (next_ == order_.size()) shuffle();
    lanes_[lane] = {.sequence = order_[next_++]};
    for (const char* name : {"h", "c"}) {
      std::fill_n(network_.floats(name).data() + lane * kLifetimeUnits, kLifetimeUnits, 0.0F);
    }
  }

  void shuffle() {
    order_ = seen_;
    for (const Sequence& s : blind_) order_.push_back(&s);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
    next_ = 0;
  }

  Network& network_;
  Inputs inputs_;
  FitOptions options_;
  RandomStream random_;
  std::vector<Sequence> blind_;
  std::vector<const Sequence*> seen_;
  std::vector<const Sequence*> order_;
  std::size_t next_ = 0;
  std::array<Lane, kLanes> lanes_;
};

}  // namespace

QuantileNet::QuantileNet(std::uint64_t seed) : network_(prediction_graph(), seed) {}

void QuantileNet::predict(const Sequence& step, std::span<Lifetime> out) {
  require(out.size() == step.size(), "one lifetime an event");
  Inputs inputs(network_, 1);
  const std::span<float> h = network_.floats("h");
  const std::span<float> c = network_.floats("c");
  std::ranges::fill(h, 0.0F);
  std::ranges::fill(c, 0.0F);
  const std::span<const float> said = network_.floats("quantiles");
  for (std::size_t first = 0; first < step.size(); first += kSteps) {
    const std::size_t count = inputs.put(step, first, 0);
    network_.run();
    for (std::size_t t = 0; t < count; ++t) {
      out[first + t] = lifetime_of({said[t * 3], said[t * 3 + 1], said[t * 3 + 2]});
    }
    std::ranges::copy(network_.floats("h_n"), h.begin());
    std::ranges::copy(network_.floats("c_n"), c.begin());
  }
}

void predict_base(const Sequence& step, std::span<Lifetime> out) {
  require(out.size() == step.size(), "one lifetime an event");
  for (std::size_t i = 0; i < step.size(); ++i) {
    const double ticks = std::round(std::exp(step.base[i]));
    out[i] = {.p10 = ticks, .p50 = ticks, .p90 = ticks};
  }
}

FitResult fit(const std::vector<const Sequence*>& steps, const NetworkWeights& start, const FitOptions& options,
              const std::atomic<bool>* stop) {
  require(!steps.empty(), "there is something to learn from");
  Network network(training_graph(), options.seed);
  network.load(start);
  Lanes lanes(network, steps, options);
  FitResult out{.arena_bytes = network.arena_bytes()};
  const int tail = std::max(1, options.updates / 10);
  for (int i = 0; i < options.updates; ++i) {
    if (stop != nullptr && stop->load()) break;
    const double progress = static_cast<double>(i) / options.updates;
    const double fall = 0.01 + 0.99 * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    lanes.fill();
    network.train(i + 1, options.lr * fall, optimizer());
    lanes.carry();
    if (i >= options.updates - tail) out.loss += static_cast<double>(network.floats("loss")[0]) / tail;
  }
  out.weights = network.weights();
  return out;
}

}  // namespace neap
