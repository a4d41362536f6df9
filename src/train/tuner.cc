#include "train/tuner.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/clock.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::int64_t kWarmSteps = 6;    // the first pay for cold memory
constexpr std::size_t kRounds = 4;        // steps of each side in a trial
constexpr std::int64_t kWatchEvery = 32;  // steps between two looks at the tree
constexpr double kWorthwhile = 0.01;      // of a piece's time
constexpr double kFaster = 0.99;          // of a step's time, for a variant to stay
constexpr double kStartMs = 100;          // what it takes about to measure the roofline and to cut the step into pieces

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> medians(const std::vector<std::vector<double>>& samples) {
  std::vector<double> out;
  for (std::size_t i = 0; i < samples.front().size(); ++i) {
    std::vector<double> each;
    for (const auto& sample : samples) each.push_back(sample[i]);
    out.push_back(median(std::move(each)));
  }
  return out;
}

}  // namespace

Tuner::Tuner(TunedRun run, TunerOptions options)
    : run_(std::move(run)),
      options_(std::move(options)),
      agent_(options_.library, {.training_epochs = options_.tuning.rl_training_epochs, .seed = options_.seed}),
      base_program_(run_.base.program()),
      base_plan_(run_.base.plan()) {}

Tuner::~Tuner() {
  if (compiling_.valid()) compiling_.wait();
}

std::vector<std::string> Tuner::take_log() { return std::exchange(log_, {}); }

std::string Tuner::take_note() { return std::exchange(note_, {}); }

// Two rehearsals are two steps that train nothing; what compiles beside the run takes cores from it.
bool Tuner::can_afford() const {
  const double all_ms = static_cast<double>(options_.steps) * step_ms_;
  const double first_ms = pieces_ ? compile_ms_ : kStartMs;
  return spent_ms_ + 2 * step_ms_ + first_ms <= options_.tuning.trial_share * all_ms;
}

bool Tuner::is_rejected(const Actions& actions) const {
  return std::any_of(actions.begin(), actions.end(), [&](int action) { return rejected_.contains(action); });
}

// Nothing of it is made for a run too short to try anything.
void Tuner::start() {
  phase_ = Phase::kWatch;
  if (!can_afford()) return;
  const auto began = Clock::now();
  pieces_ = std::make_unique<Pieces>(run_.settled(), options_.library, options_.tuning.subgraphs);
  spent_ms_ += ms_since(began);
  begin();
}

// What the agent would do by itself, then each strategy everywhere: the pieces are timed all at once.
void Tuner::begin() {
  current_actions_ = pieces_->actions_of(current().graph());
  known_.assign(pieces_->size(), {});
  to_try_.clear();
  for (int action = static_cast<int>(options_.library.size()); action >= 0; --action) {
    to_try_.emplace_back(pieces_->size(), action);
  }
  Actions wish;
  last_ms_.resize(pieces_->size());
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    wish.push_back(agent_.choose(pieces_->state(p, last_ms_[p], current_actions_[p])));
  }
  to_try_.push_back(std::move(wish));
  next();
}

void Tuner::next() {
  retired_ = std::move(trial_);
  phase_ = Phase::kWatch;
  while (!to_try_.empty() && can_afford()) {
    Actions actions = std::move(to_try_.back());
    to_try_.pop_back();
    bool teaches = false;
    for (std::size_t p = 0; p < pieces_->size(); ++p) {
      teaches = teaches || (actions[p] != current_actions_[p] && !known_[p].contains(actions[p]));
    }
    if (teaches && !is_rejected(actions)) return compile(std::move(actions), false);
  }
  if (to_try_.empty()) choose();
}

// What the agent thinks best, where the clock agrees.
void Tuner::choose() {
  const auto start = Clock::now();
  agent_.learn();
  spent_ms_ += ms_since(start);
  Actions chosen = current_actions_;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const auto now = known_[p].find(current_actions_[p]);
    if (now == known_[p].end()) continue;  // nothing was tried
    const int wish = agent_.choose(pieces_->state(p, now->second, current_actions_[p]));
    const auto timed = known_[p].find(wish);
    if (timed != known_[p].end() && timed->second < (1 - kWorthwhile) * now->second) chosen[p] = wish;
  }
  if (chosen != current_actions_ && !is_rejected(chosen) && can_afford()) compile(std::move(chosen), true);
}

Tuner::Variant Tuner::make(const Actions& actions) const {
  const auto start = Clock::now();
  Variant out{.actions = actions, .program = {}, .layout = {}, .plan = {}};
  out.program = std::make_shared<Program>(prepare(pieces_->rewritten(actions), run_.device));
  const Program& p = *out.program;
  out.program->costs.ms.assign(p.graph.nodes.size(), 1);
  out.layout = shared_layout(base_program_->graph, base_plan_, p.graph);
  out.plan = plan_within(store_all_policy(), {.graph = p.graph, .costs = p.costs, .link = {}, .layout = &out.layout},
                         std::nullopt);
  out.ms = ms_since(start);
  return out;
}

// Kernels are made for as many threads as will run them, whoever makes them.
void Tuner::compile(Actions actions, bool is_choice) {
  phase_ = Phase::kCompile;
  const int threads = omp_get_max_threads();
  compiling_ = std::async(options_.is_synchronous ? std::launch::deferred : std::launch::async,
                          [this, actions = std::move(actions), is_choice, threads] {
                            omp_set_num_threads(threads);
                            Variant out = make(actions);
                            out.is_choice = is_choice;
                            return out;
                          });
}

Stepper& Tuner::before(std::optional<std::int64_t> budget) {
  ++step_;
  retired_.reset();
  const std::int64_t most = std::min(budget.value_or(kNoBudget), run_.arena.capacity());
  if (adopted_ && adopted_->plan().peak_bytes > most) adopted_.reset();  // the budget has shrunk
  if (phase_ == Phase::kTrial && trial_->plan().peak_bytes > most) next();
  if (phase_ == Phase::kCompile &&
      (options_.is_synchronous || compiling_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
    deploy(most);
  }
  running_ = phase_ == Phase::kTrial && turn_++ % 2 == 0 ? trial_.get() : &current();
  if (running_->plan().peak_bytes > run_.arena.bytes()) run_.arena.resize(running_->plan().peak_bytes);
  return *running_;
}

void Tuner::deploy(std::int64_t most) {
  try {
    candidate_ = compiling_.get();
  } catch (const UserError& e) {  // what it would put in has no kernel here
    log_.push_back(fmt::format("a variant could not be made, all stays as it was: {}", e.what()));
    return next();
  }
  compile_ms_ = candidate_.ms;
  spent_ms_ += compile_ms_;
  const Program& p = *candidate_.program;
  const bool is_what_runs = p.numerics_id == current().program()->numerics_id;  // there is nothing that it would do
  if (is_what_runs || candidate_.plan.peak_bytes > most) return next();
  if (candidate_.plan.peak_bytes > run_.arena.bytes()) run_.arena.resize(candidate_.plan.peak_bytes);
  trial_ = std::make_unique<Stepper>(run_.base.shape(), candidate_.program, candidate_.plan, candidate_.layout,
                                     run_.device, run_.arena, nullptr);
  if (!agrees()) return next();
  ++trials_;
  old_ = fresh_ = {};
  turn_ = 0;
  phase_ = Phase::kTrial;
}

bool Tuner::wants_times() const {
  const bool is_look = phase_ == Phase::kWatch && pieces_ && step_ % kWatchEvery == 0;
  return phase_ == Phase::kTrial || (is_look && can_afford());
}

void Tuner::after(double ms, const std::vector<double>& timed) {
  if (phase_ == Phase::kWarm) {
    if (step_ > 1) warm_ms_.push_back(ms);
    if (step_ < kWarmSteps) return;
    step_ms_ = median(warm_ms_);
    return start();
  }
  if (timed.empty()) return;
  if (phase_ == Phase::kWatch) return watch(timed);
  if (phase_ != Phase::kTrial) return;
  Timed& side = running_ == trial_.get() ? fresh_ : old_;
  side.ms.push_back(std::accumulate(timed.begin(), timed.end(), 0.0));
  side.pieces.push_back(pieces_->ms(*running_, timed));
  if (old_.ms.size() >= kRounds && fresh_.ms.size() >= kRounds) judge();
}

// A trial is over.
void Tuner::judge() {
  const double old_ms = median(old_.ms);
  const double fresh_ms = median(fresh_.ms);
  spent_ms_ += std::max(0.0, fresh_ms - old_ms) * static_cast<double>(kRounds);
  learn(medians(old_.pieces), medians(fresh_.pieces));
  if (candidate_.is_choice) return settle(old_ms, fresh_ms);
  log_.push_back(
      fmt::format("tried {}: {:.2f} ms a step where {:.2f} is usual", text_of(candidate_.actions), fresh_ms, old_ms));
  next();
}

void Tuner::learn(const std::vector<double>& old, const std::vector<double>& fresh) {
  last_ms_ = old;
  for (std::size_t p = 0; p < pieces_->size(); ++p) {
    const dqn::State was = pieces_->state(p, old[p], current_actions_[p]);
    const double gain = dqn::reward_of({}, old[p], fresh[p], was.bandwidth, pieces_->state(p, fresh[p], 0).bandwidth);
    agent_.remember(was, current_actions_[p], 0);
    agent_.remember(was, candidate_.actions[p], gain);
    known_[p][current_actions_[p]] = old[p];
    if (candidate_.actions[p] != current_actions_[p]) known_[p][candidate_.actions[p]] = fresh[p];
  }
}

// The agent's choice stays if it is faster and gives back, in the steps that are left, what all of this has cost.
void Tuner::settle(double old_ms, double fresh_ms) {
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const bool is_better = fresh_ms < kFaster * old_ms && (old_ms - fresh_ms) * left > spent_ms_;
  log_.push_back(fmt::format("chose {}: {:.2f} ms a step where {:.2f} is usual, {}", text_of(candidate_.actions),
                             fresh_ms, old_ms, is_better ? "it stays" : "not worth it, all stays as it was"));
  if (is_better) {
    note_ = log_.back();
    last_ms_ = medians(fresh_.pieces);
    retired_ = std::exchange(adopted_, std::move(trial_));
    current_actions_ = candidate_.actions;
    ++adoptions_;
  } else {
    retired_ = std::move(trial_);
  }
  phase_ = Phase::kWatch;
}

// Where pieces split or merge, there is something new to choose.
void Tuner::watch(const std::vector<double>& timed) {
  std::vector<std::string> changes = pieces_->observe(*running_, timed);
  if (changes.empty()) return;
  changes_ += static_cast<int>(changes.size());
  std::move(changes.begin(), changes.end(), std::back_inserter(log_));
  last_ms_ = pieces_->ms(*running_, timed);
  begin();
}

}  // namespace neap
