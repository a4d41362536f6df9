#include "policy/lifetime/lstm_predictor.h"

#include <deque>

#include "neap/error.h"
#include "policy/lifetime/background.h"
#include "policy/lifetime/groups.h"
#include "policy/lifetime/quality_watch.h"
#include "policy/lifetime/recording.h"
#include "pool/simple_predictors.h"

namespace neap {
namespace {

// A step for which a prediction was made and that has not run yet.
struct Pending {
  std::vector<AllocationEvent> events;
  std::vector<Lifetime> lifetimes;
};

// Plans may be tried with several orders of one step; only one of them runs.
constexpr std::size_t kMostPending = 4;

}  // namespace

class LstmPredictor::Inside {
 public:
  explicit Inside(LifetimeOptions options) : options_(options), net_(options.seed) {
    require(options.window >= options.first && options.first >= 4, "the window holds the first steps to learn from");
    report_.arena_bytes = net_.arena_bytes();
  }

  void predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) {
    adopt(background_.result());
    const Sequence sequence = sequence_for(step);
    if (weights_.empty()) {
      predict_base(sequence, out);
    } else {
      net_.predict(sequence, out);
    }
    if (pending_.size() == kMostPending) pending_.pop_front();
    pending_.push_back({.events = {step.begin(), step.end()}, .lifetimes = {out.begin(), out.end()}});
  }

  void observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) {
    remember(step, lifespans);
    adopt(background_.result());
    if (is_time_to_train()) start_training();
  }

  // Everything, not only a window of it.
  void study(std::span<const RecordedStep> recording) {
    SeenSteps all;
    for (const RecordedStep& step : recording) {
      remember(step.events, step.lifespans);
      all.push_back(window_.back());
    }
    if (all.size() >= options_.first) adopt(retrain(all, weights_, fit_options()));
  }

  void remember(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) {
    auto seen = std::make_shared<SeenStep>();
    seen->sequence = sequence_for(step);
    seen->lifespans.assign(lifespans.begin(), lifespans.end());
    set_targets(seen->sequence, lifespans);
    watch_quality(step, *seen);
    history_.learn(step, lifespans);
    report_.window_bytes += seen->sequence.bytes();
    window_.push_back(std::move(seen));
    if (window_.size() > options_.window) {
      report_.window_bytes -= window_.front()->sequence.bytes();
      window_.pop_front();
    }
    ++report_.steps;
    ++since_training_;
  }

  void wait() { adopt(background_.wait()); }

  LifetimeReport report() const {
    LifetimeReport out = report_;
    out.recent_pinball = watch_.recent_mean();
    return out;
  }

  std::int64_t bytes() const {
    return report_.arena_bytes + report_.window_bytes + bytes_of(weights_) + history_.bytes();
  }

 private:
  Sequence sequence_for(std::span<const AllocationEvent> step) const {
    Sequence sequence = sequence_of(step, &history_);
    return options_.uses_history ? sequence : without_history(sequence);
  }

  void watch_quality(std::span<const AllocationEvent> step, const SeenStep& seen) {
    for (auto it = pending_.begin(); it != pending_.end(); ++it) {
      if (!std::ranges::equal(it->events, step)) continue;
      watch_.add(
          {.own = score_of(it->lifetimes, seen.lifespans).pinball(), .last_value = score_last_value(seen).pinball()});
      pending_.clear();
      return;
    }
  }

  FitOptions fit_options() const {
    return {.updates = options_.updates,
            .uses_history = options_.uses_history,
            .seed = options_.seed + static_cast<std::uint64_t>(report_.trainings)};
  }

  // While the window fills, whenever there is twice as much to learn from; later when predictions are wrong.
  bool is_time_to_train() const {
    if (background_.is_busy() || window_.size() < options_.first) return false;
    if (window_.size() >= 2 * learnt_from_) return true;
    const std::size_t rest = std::min(options_.window, (options_.window / 4) << failures_);
    return since_training_ >= rest && watch_.is_consistently_wrong();
  }

  void start_training() {
    since_training_ = 0;
    learnt_from_ = window_.size();
    SeenSteps steps(window_.begin(), window_.end());
    if (options_.in_background) {
      background_.start(std::move(steps), weights_, fit_options());
    } else {
      adopt(retrain(steps, weights_, fit_options()));
    }
  }

  // A network that is not better teaches what to expect, so that one does not train again for nothing.
  void adopt(std::optional<Retraining> result) {
    if (!result) return;
    ++report_.trainings;
    report_.training_ms += result->ms;
    report_.arena_bytes = net_.arena_bytes() + result->arena_bytes;
    if (!result->is_better) {
      failures_ = std::min(failures_ + 1, 2);
      watch_.expect(std::max(watch_.expected(), result->active.pinball()));
      return;
    }
    failures_ = 0;
    weights_ = std::move(result->weights);
    net_.load(weights_);
    watch_.expect(result->candidate.pinball());
    ++report_.adopted;
    report_.last_adopted_at = report_.steps;
    report_.held_out_pinball = result->candidate.pinball();
  }

  LifetimeOptions options_;
  QuantileNet net_;
  NetworkWeights weights_;  // empty: nothing was learnt yet
  SiteHistory history_;
  std::deque<std::shared_ptr<const SeenStep>> window_;
  std::deque<Pending> pending_;
  QualityWatch watch_;
  LifetimeReport report_;
  std::size_t since_training_ = 0;
  std::size_t learnt_from_ = 0;  // steps that the last training saw
  int failures_ = 0;             // trainings in a row that were no better
  BackgroundRetraining background_;
};

LstmPredictor::LstmPredictor(LifetimeOptions options) : options_(options), inside_(std::make_unique<Inside>(options)) {}
LstmPredictor::~LstmPredictor() = default;

void LstmPredictor::predict(std::span<const AllocationEvent> step, std::span<Lifetime> out) {
  require(step.size() == out.size(), "one lifetime an event");
  if (!options_.per_layer) return inside_->predict(step, out);
  const LayerGroups groups = group_by_layer(step);
  std::vector<Lifetime> lifetimes(groups.events.size());
  inside_->predict(groups.events, lifetimes);
  spread_to_events(groups, step, lifetimes, out);
}

void LstmPredictor::observe(std::span<const AllocationEvent> step, std::span<const Tick> lifespans) {
  if (!options_.per_layer) return inside_->observe(step, lifespans);
  const LayerGroups groups = group_by_layer(step);
  inside_->observe(groups.events, group_lifespans(groups, step, lifespans));
}

void LstmPredictor::study(std::span<const RecordedStep> recording) {
  if (!options_.per_layer) return inside_->study(recording);
  std::vector<RecordedStep> grouped;
  for (const RecordedStep& step : recording) {
    const LayerGroups groups = group_by_layer(step.events);
    grouped.push_back({.events = groups.events, .lifespans = group_lifespans(groups, step.events, step.lifespans)});
  }
  inside_->study(grouped);
}

void LstmPredictor::wait() { inside_->wait(); }
std::int64_t LstmPredictor::own_bytes() const { return inside_->bytes(); }
LifetimeReport LstmPredictor::report() const { return inside_->report(); }

std::unique_ptr<LifetimePredictor> make_lifetime_predictor(std::string_view name, std::uint64_t seed) {
  if (name == "lstm") return std::make_unique<LstmPredictor>(LifetimeOptions{.seed = seed});
  if (name == "lstm-layers") return std::make_unique<LstmPredictor>(LifetimeOptions{.per_layer = true, .seed = seed});
  return predictor_named(name);
}

}  // namespace neap
