#include "train/tuner.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "neap/error.h"
#include "train/median.h"
#include "train/thread_clock.h"

namespace neap {
namespace {

constexpr std::int64_t kWarmSteps = 6;    // the first pay for cold memory
constexpr std::int64_t kWatchEvery = 32;  // steps between two looks at the tree
constexpr int kFirstLooks = 3;            // the short profiling run
constexpr std::int64_t kCalm = 16;        // steps after a drift in which there is no other; twice as many each time
constexpr int kMostCalm = 3;              // times that they become twice as many
constexpr double kFollow = 0.05;          // of a step's time that goes into what is usual
constexpr double kSafe = 0.95;            // of the share: what is charged is measured
constexpr double kAtFirst = 0.6;          // of the share: the rest becomes free as the run goes on, for slowdowns
constexpr double kStartMs = 100;          // what it takes about to measure the roofline and to cut the step into pieces

// Without the first, which is to do nothing.
std::vector<Strategy> strategies_of(const std::vector<Way>& ways) {
  std::vector<Strategy> out;
  for (std::size_t i = 1; i < ways.size(); ++i) out.push_back(ways[i].strategy);
  return out;
}

}  // namespace

Tuner::Tuner(TunedRun run, TunerOptions options)
    : run_(std::move(run)),
      options_(std::move(options)),
      ways_(ways_of(options_.library)),
      agent_(strategies_of(ways_), {.training_epochs = options_.tuning.rl_training_epochs, .seed = options_.seed}),
      base_program_(run_.base.program()),
      base_plan_(run_.base.plan()) {}

Tuner::~Tuner() {
  if (compiling_.valid() && !options_.is_synchronous) compiling_.wait();  // else it has not begun
}

std::vector<std::string> Tuner::take_log() { return std::exchange(log_, {}); }

std::string Tuner::take_note() { return std::exchange(note_, {}); }

// The steps to come may be as fast as the fastest so far.
double Tuner::allowed_ms() const {
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const double done = std::min(1.0, static_cast<double>(step_) / static_cast<double>(options_.steps));
  const double free = kSafe * (trials_ == 0 || drifts_ > 0 ? 1 : kAtFirst + (1 - kAtFirst) * done);
  return free * options_.tuning.trial_share * (elapsed_ms_ + left * least_ms_);
}

// A rehearsal is a step that trains nothing; what compiles beside the run takes cores from it; and a variant may turn
// out to be slower, by some of a step until that is seen.
bool Tuner::can_afford(bool is_shown) const {
  const double first_ms = pieces_ ? 1.5 * compile_ms_ + 2 * lesson_ms_ : kStartMs;
  return spent_ms_ + (is_shown ? 0.3 : 1.8) * expected_ms_ + first_ms <= allowed_ms();
}

// It has given the same, or everything else was compared with it.
bool Tuner::is_shown(const Actions& actions) const {
  return actions == base_actions_ || shown_.contains(key_of(actions));
}

void Tuner::spend(Effort effort, double ms) {
  const double charged = options_.made_up_ms ? options_.made_up_ms(effort) : ms;
  if (effort == Effort::kMake) compile_ms_ = charged;
  if (effort == Effort::kLearn) lesson_ms_ = charged;
  spent_ms_ += charged;
  unpaid_ms_ += charged;
}

// Nothing of it is made for a run too short to try anything.
void Tuner::start() {
  phase_ = Phase::kWatch;
  if (!can_afford()) return;
  const double began_ms = thread_ms();
  pieces_ = std::make_unique<Pieces>(run_.settled(), ways_, options_.tuning.subgraphs, run_.device.kind());
  node_ms_.assign(pieces_->nodes(), 0);
  align();
  looks_ = kFirstLooks;
  spend(Effort::kStart, thread_ms() - began_ms);
}

// What there is in the pieces that there are now.
void Tuner::align() {
  current_actions_ = pieces_->actions_of(current().graph());
  base_actions_ = pieces_->actions_of(run_.base.graph());
  tried_.assign(pieces_->size(), {});
  refused_.clear();
}

void Tuner::begin() {
  align();
  next();
}

void Tuner::rest() {
  if (trial_) retired_ = std::move(trial_);
  phase_ = Phase::kWatch;
}

// First what promises to be faster by what is known of its parts, then what nobody has seen yet.
void Tuner::next() {
  rest();
  if (auto actions = promising()) return compile(std::move(*actions), Purpose::kChoice);
  auto actions = untried();
  if (!actions || !can_afford(is_shown(*actions))) return;
  for (std::size_t p = 0; p < actions->size(); ++p) tried_[p].insert((*actions)[p]);
  compile(std::move(*actions), Purpose::kLearn);
}

// The variant is not for this run.
void Tuner::give_up() {
  if (candidate_.purpose == Purpose::kChoice) refused_.insert(candidate_.actions);
  next();
}

Tuner::Variant Tuner::make(const Actions& actions) const {
  const double start_ms = thread_ms();
  Variant out{.actions = actions, .program = {}, .layout = {}, .plan = {}};
  out.program = actions == base_actions_ ? run_.base.program()
                                         : std::make_shared<Program>(prepare(pieces_->rewritten(actions), run_.device));
  const Program& p = *out.program;
  if (actions != base_actions_) out.program->costs.ms.assign(p.graph.nodes.size(), 1);
  out.layout = shared_layout(base_program_->graph, base_plan_, p.graph);
  out.plan = plan_within(store_all_policy(), {.graph = p.graph, .costs = p.costs, .link = {}, .layout = &out.layout},
                         std::nullopt);
  out.ms = thread_ms() - start_ms;
  return out;
}

// Kernels are made for as many threads as will run them, whoever makes them.
void Tuner::compile(Actions actions, Purpose purpose) {
  phase_ = Phase::kCompile;
  candidate_ = {.actions = actions, .purpose = purpose, .program = {}, .layout = {}, .plan = {}};
  const int threads = omp_get_max_threads();
  compiling_ = std::async(options_.is_synchronous ? std::launch::deferred : std::launch::async,
                          [this, actions = std::move(actions), purpose, threads] {
                            omp_set_num_threads(threads);
                            Variant out = make(actions);
                            out.purpose = purpose;
                            return out;
                          });
}

Stepper& Tuner::before(std::optional<std::int64_t> budget) {
  ++step_;
  retired_.reset();
  const std::int64_t most = std::min(budget.value_or(kNoBudget), run_.arena.capacity());
  if (adopted_ && adopted_->plan().peak_bytes > most) {  // the budget has shrunk
    adopted_.reset();
    align();
    if (phase_ == Phase::kTrial) rest();
  }
  if (phase_ == Phase::kTrial && trial_->plan().peak_bytes > most) rest();
  if (phase_ == Phase::kCompile &&
      (options_.is_synchronous || compiling_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
    deploy(most);
  }
  running_ = phase_ == Phase::kTrial && duel_.is_fresh_next() ? trial_.get() : &current();
  if (!has_room(running_->plan())) {  // what the run began with has had its room
    rest();
    adopted_.reset();
    align();
    running_ = &current();
  }
  return *running_;
}

// Another process may have what a GPU had left.
bool Tuner::has_room(const Plan& plan) {
  if (plan.peak_bytes <= run_.arena.bytes()) return true;
  try {
    run_.arena.resize(plan.peak_bytes);
  } catch (const DeviceError&) {
    return false;
  }
  return true;
}

void Tuner::deploy(std::int64_t most) {
  try {
    candidate_ = compiling_.get();
  } catch (const std::exception& e) {  // what it puts in has no kernel here, or the pass is wrong
    return reject(used(candidate_.actions), fmt::format("cannot be made ({})", e.what()));
  }
  spend(Effort::kMake, candidate_.ms);
  if (candidate_.purpose == Purpose::kRepair) return repair(most);
  const bool is_what_runs = candidate_.program->numerics_id == current().program()->numerics_id;  // nothing to do there
  const bool has_been_shown = is_shown(candidate_.actions);
  if (is_what_runs || candidate_.plan.peak_bytes > most) return give_up();
  if (!can_afford(has_been_shown)) return rest();
  if (!has_room(candidate_.plan)) return give_up();
  trial_ = std::make_unique<Stepper>(run_.base.shape(), candidate_.program, candidate_.plan, candidate_.layout,
                                     run_.device, run_.arena, nullptr);
  if (has_been_shown) return begin_trial();
  rehearse();
}

void Tuner::begin_trial() {
  ++trials_;
  duel_ = Duel(pieces_->differences(current(), *trial_));
  phase_ = Phase::kTrial;
}

bool Tuner::wants_times() const {
  const bool is_look = phase_ == Phase::kWatch && pieces_ && (looks_ > 0 || step_ % kWatchEvery == 0);
  return phase_ == Phase::kTrial || is_look;
}

void Tuner::after(double ms, const std::vector<double>& timed) {
  elapsed_ms_ += ms;
  if (!timed.empty()) charge_look(ms);
  switch (phase_) {
    case Phase::kWarm:
      if (step_ > 1) warm_ms_.push_back(ms);
      if (step_ < kWarmSteps) return;
      expected_ms_ = least_ms_ = median(warm_ms_);
      return start();
    case Phase::kCompile: return;
    case Phase::kRehearsal: return compare();
    case Phase::kWatch:
      if (pieces_ && looks_ == 0 && has_drifted(ms)) forget();
      return timed.empty() ? void() : watch(timed);
    case Phase::kTrial: return time_trial(timed);
  }
}

// On a GPU a step whose calls are timed goes out call by call, not as a whole. What the variant takes longer is charged
// when it is judged: of a trial's pair of steps one is looked at.
void Tuner::charge_look(double ms) {
  if (run_.device.kind() != DeviceKind::kCuda || running_ == trial_.get()) return;
  const int steps = phase_ == Phase::kTrial ? 2 : 1;
  spend(Effort::kLook, steps * std::max(0.0, ms - expected_ms_));
}

void Tuner::time_trial(const std::vector<double>& timed) {
  if (timed.empty()) return;
  duel_.add(running_ == trial_.get(), pieces_->node_ms(*running_, timed));
  if (!duel_.is_even()) return;
  const Difference whole = duel_.whole();
  if (is_decided(whole) || has_spent_all(whole)) judge();
}

// A look at the pieces. Where they split or merge, there is something new to choose.
void Tuner::watch(const std::vector<double>& timed) {
  node_ms_ = pieces_->node_ms(*running_, timed);
  std::vector<std::string> changes = pieces_->observe(node_ms_);
  if (!changes.empty()) align();
  changes_ += static_cast<int>(changes.size());
  std::move(changes.begin(), changes.end(), std::back_inserter(log_));
  const bool was_last_look = looks_ > 0 && --looks_ == 0;
  if (looks_ == 0 && (was_last_look || !changes.empty())) begin();
}

// Has the step become another one? A single odd step is none.
bool Tuner::has_drifted(double ms) {
  last_ms_[static_cast<std::size_t>(felt_++) % last_ms_.size()] = ms;
  if (felt_ < static_cast<std::int64_t>(last_ms_.size())) return false;
  const double now_ms = median({last_ms_.begin(), last_ms_.end()});
  const bool has_moved = shift_.add(now_ms, expected_ms_);
  if (!has_moved) expected_ms_ += kFollow * (now_ms - expected_ms_);
  least_ms_ = std::min(least_ms_, expected_ms_);
  if (!has_moved || step_ < calm_until_) return false;
  ++drifts_;
  shift_.reset();
  calm_until_ = step_ + (kCalm << std::min(kMostCalm, idle_drifts_++));
  const std::string line = fmt::format("steps take {:.2f} ms where {:.2f} was usual", now_ms, expected_ms_);
  expected_ms_ = now_ms;
  const bool is_tried = can_afford(true);
  log_.push_back(line + (is_tried ? ": strategies are tried again" : "; trials have had their share of the run"));
  return is_tried;
}

// What was measured before is worth nothing now.
void Tuner::forget() {
  times_.clear();
  refused_.clear();
  looks_ = 1;
}

}  // namespace neap
