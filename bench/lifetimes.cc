// Predictors of lifetimes side by side, on steps whose length varies: how good the predictions are, and what they cost
// the pool in bytes. `ninja -C build lifetimes_bench && build/bench/lifetimes_bench` prints the tables of LIFETIMES.md.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/bytes.h"
#include "core/random.h"
#include "neap/error.h"
#include "neap/train.h"
#include "policy/lifetime/lstm_predictor.h"
#include "policy/lifetime/score.h"
#include "pool/pool_plan.h"
#include "pool/simple_predictors.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSteps = 128;  // of a stream
constexpr int kWarmUp = 32;  // of these are not scored
constexpr std::int64_t kBucket = 16;

struct Problem {
  Graph graph;
  Costs costs;
};

// The model's graphs, one a length.
class Graphs {
 public:
  explicit Graphs(std::string model) : model_(std::move(model)), device_(make_cpu_device(1)) {}

  const Problem& at(std::int64_t length) {
    auto& it = known_[length];
    if (!it) {
      TrainOptions options{.model = model_, .length = length};
      Program program = prepare(build_training(make_spec(open_model(model_), options), options), *device_);
      it = std::make_unique<Problem>(Problem{std::move(program.graph), std::move(program.costs)});
    }
    return *it;
  }

 private:
  std::string model_;
  std::unique_ptr<Device> device_;
  std::map<std::int64_t, std::unique_ptr<Problem>> known_;
};

// Most are short, a few are long; all are multiples of kBucket.
std::vector<std::int64_t> skewed_lengths(std::int64_t longest, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::int64_t> out;
  const std::int64_t whole_buckets = longest / kBucket;
  const auto buckets = static_cast<double>(whole_buckets);
  for (int i = 0; i < kSteps; ++i) {
    out.push_back(kBucket * (1 + static_cast<std::int64_t>(std::pow(random.uniform(), 2.5) * buckets)));
  }
  return out;
}

struct Row {
  LifetimeScore score;
  double peak_bytes = 0;     // mean, with room for everything
  double spilled_bytes = 0;  // mean a step, within the capacity
  double predict_ms = 0;     // for 1,000 events
  int does_not_fit = 0;

  Row& operator+=(const Row& other) {
    score += other.score;
    peak_bytes += other.peak_bytes;
    spilled_bytes += other.spilled_bytes;
    predict_ms += other.predict_ms;
    does_not_fit += other.does_not_fit;
    return *this;
  }
};

std::unique_ptr<LifetimePredictor> make_predictor(std::string_view name, std::uint64_t seed) {
  if (name == "lstm") return std::make_unique<LstmPredictor>(LifetimeOptions{.in_background = false, .seed = seed});
  if (name == "lstm, no history") {
    return std::make_unique<LstmPredictor>(
        LifetimeOptions{.uses_history = false, .in_background = false, .seed = seed});
  }
  if (name == "history, no network") {
    return std::make_unique<LstmPredictor>(LifetimeOptions{.window = 2 * kSteps, .first = 2 * kSteps});
  }
  if (name == "lstm, per layer") {
    return std::make_unique<LstmPredictor>(LifetimeOptions{.per_layer = true, .in_background = false, .seed = seed});
  }
  return predictor_named(name);
}

// Predicts, plans and learns, step by step; the means are over the steps behind the warm-up.
Row run(LifetimePredictor& predictor, Graphs& graphs, const std::vector<std::int64_t>& lengths, std::int64_t capacity) {
  Row row;
  std::vector<Lifetime> lifetimes;
  std::size_t events = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::int64_t length = lengths[static_cast<std::size_t>(i)];
    const Problem& shape = graphs.at(length);
    const PoolOutcome outcome =
        plan_with_pool(shape.graph, shape.costs, predictor, {.capacity = capacity, .length = length});
    const StepEvents& step = outcome.events;
    lifetimes.resize(step.events.size());
    if (auto* informed = dynamic_cast<InformedPredictor*>(&predictor)) informed->inform(step.lifespans);
    const auto start = Clock::now();
    predictor.predict(step.events, lifetimes);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (i >= kWarmUp) {
      row.score += score_of(lifetimes, step.lifespans);
      row.predict_ms += ms;
      events += step.events.size();
      row.does_not_fit += outcome.plan ? 0 : 1;
      row.peak_bytes += static_cast<double>(outcome.stats.peak_bytes) / (kSteps - kWarmUp);
      row.spilled_bytes += static_cast<double>(outcome.stats.spilled_bytes) / (kSteps - kWarmUp);
    }
    predictor.observe(step.events, step.lifespans);
  }
  row.predict_ms *= 1000.0 / static_cast<double>(events);
  return row;
}

// State, and a share of what the longest step needs beside it when lifetimes are exact.
std::int64_t capacity_of(Graphs& graphs, std::int64_t longest, double share) {
  const Problem& shape = graphs.at(longest);
  const auto plan = std::get<Plan>(make_plan(shape.graph, shape.costs, store_all(shape.graph)));
  return plan.state_bytes + static_cast<std::int64_t>(share * static_cast<double>(plan.peak_bytes - plan.state_bytes));
}

constexpr std::string_view kPredictors[] = {"oracle",          "lstm",       "lstm, no history", "history, no network",
                                            "lstm, per layer", "last-value", "average",          "regression"};

constexpr std::uint64_t kStreams[] = {7, 8, 9};

void compare(const std::string& model, std::int64_t longest) {
  Graphs graphs(model);
  const std::int64_t capacity = capacity_of(graphs, longest, 0.6);
  fmt::print("\n### {}, lengths 16 to {}, capacity {}\n\n", model, longest, human_bytes(capacity));
  fmt::print("| predictor | pinball | outside [p10, p90] | above p90 | peak MiB | spilled MiB | ms / 1,000 |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const std::string_view name : kPredictors) {
    Row roomy;
    Row narrow;
    for (const std::uint64_t stream : kStreams) {
      const std::vector<std::int64_t> lengths = skewed_lengths(longest, stream);
      roomy += run(*make_predictor(name, stream), graphs, lengths, kNoBudget);
      narrow += run(*make_predictor(name, stream), graphs, lengths, capacity);
    }
    constexpr double kMiBs = std::size(kStreams) * double{1 << 20};
    fmt::print("| {} | {:.4f} | {:.1f} % | {:.1f} % | {:.2f} | {:.2f}{} | {:.2f} |\n", name, roomy.score.pinball(),
               100 * roomy.score.miss_rate(), 100 * roomy.score.early_rate(), roomy.peak_bytes / kMiBs,
               narrow.spilled_bytes / kMiBs,
               narrow.does_not_fit > 0 ? fmt::format(" ({} did not fit)", narrow.does_not_fit) : "",
               roomy.predict_ms / std::size(kStreams));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace neap

// usage: lifetimes_bench [MODEL]
int main(int argc, char** argv) {
  try {
    const std::string only = argc > 1 ? argv[1] : "";
    for (const auto& [model, longest] : {std::pair{"lstm-lm", 512}, {"gru-lm", 512}, {"gpt-mini", 256}}) {
      if (only.empty() || only == model) neap::compare(model, longest);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lifetimes_bench: {}\n", error.what());
    return 2;
  }
}
