#include "train/tuner.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/clock.h"
#include "train/median.h"

namespace neap {
namespace {

constexpr std::int64_t kWarmSteps = 6;    // the first pay for cold memory
constexpr std::int64_t kWatchEvery = 32;  // steps between two looks at the tree
constexpr int kFirstLooks = 3;            // the short profiling run
constexpr std::size_t kRounds = 4;        // steps of each side in a trial
constexpr std::size_t kChoiceRounds = 8;  // of what is to stay: a burst of something else must not decide that
constexpr std::int64_t kCalm = 32;        // steps after a drift in which there is no other; twice as many each time
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
  if (compiling_.valid()) compiling_.wait();
}

std::vector<std::string> Tuner::take_log() { return std::exchange(log_, {}); }

std::string Tuner::take_note() { return std::exchange(note_, {}); }

// A rehearsal is a step that trains nothing; what compiles beside the run takes cores from it; and a variant may turn
// out to be slower, by a step in all.
bool Tuner::can_afford() const {
  const auto left = static_cast<double>(std::max<std::int64_t>(0, options_.steps - step_));
  const double all_ms = elapsed_ms_ + left * expected_ms_;
  const double first_ms = pieces_ ? compile_ms_ : kStartMs;
  return spent_ms_ + 2 * expected_ms_ + first_ms <= options_.tuning.trial_share * all_ms;
}

void Tuner::spend(double ms) {
  spent_ms_ += ms;
  unpaid_ms_ += ms;
}

// Nothing of it is made for a run too short to try anything.
void Tuner::start() {
  phase_ = Phase::kWatch;
  if (!can_afford()) return;
  const auto began = Clock::now();
  pieces_ = std::make_unique<Pieces>(run_.settled(), ways_, options_.tuning.subgraphs);
  node_ms_.assign(pieces_->nodes(), 0);
  align();
  looks_ = kFirstLooks;
  spend(ms_since(began));
}

// What there is in the pieces that there are now.
void Tuner::align() {
  current_actions_ = pieces_->actions_of(current().graph());
  tried_.assign(pieces_->size(), {});
}

void Tuner::begin() {
  align();
  next();
}

void Tuner::rest() {
  if (trial_) retired_ = std::move(trial_);
  phase_ = Phase::kWatch;
}

// First what nobody has seen yet, then what the agent makes of it.
void Tuner::next() {
  if (auto actions = untried()) {
    rest();
    if (!can_afford()) return;
    for (std::size_t p = 0; p < actions->size(); ++p) tried_[p].insert((*actions)[p]);
    return compile(std::move(*actions), Purpose::kLearn);
  }
  choose();
}

// The variant is not for this run.
void Tuner::give_up() {
  rest();
  if (candidate_.purpose == Purpose::kLearn) next();
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
  running_ = phase_ == Phase::kTrial && turn_++ % 2 == 0 ? trial_.get() : &current();
  if (running_->plan().peak_bytes > run_.arena.bytes()) run_.arena.resize(running_->plan().peak_bytes);
  return *running_;
}

void Tuner::deploy(std::int64_t most) {
  try {
    candidate_ = compiling_.get();
  } catch (const std::exception& e) {  // what it puts in has no kernel here, or the pass is wrong
    return reject(used(candidate_.actions), fmt::format("cannot be made ({})", e.what()));
  }
  compile_ms_ = candidate_.ms;
  spend(compile_ms_);
  if (candidate_.purpose == Purpose::kRepair) return repair(most);
  const std::string& id = candidate_.program->numerics_id;
  const bool is_what_runs = id == current().program()->numerics_id;  // there is nothing that it would do
  const bool was_refused = candidate_.purpose == Purpose::kChoice && refused_.contains(id);
  if (is_what_runs || was_refused || candidate_.plan.peak_bytes > most) return give_up();
  if (candidate_.plan.peak_bytes > run_.arena.bytes()) run_.arena.resize(candidate_.plan.peak_bytes);
  trial_ = std::make_unique<Stepper>(run_.base.shape(), candidate_.program, candidate_.plan, candidate_.layout,
                                     run_.device, run_.arena, nullptr);
  rehearse();
}

void Tuner::begin_trial() {
  old_ = fresh_ = {};
  turn_ = 0;
  phase_ = Phase::kTrial;
}

bool Tuner::wants_times() const {
  const bool is_look = phase_ == Phase::kWatch && pieces_ && (looks_ > 0 || step_ % kWatchEvery == 0);
  return phase_ == Phase::kTrial || is_look;
}

void Tuner::after(double ms, const std::vector<double>& timed) {
  elapsed_ms_ += ms;
  switch (phase_) {
    case Phase::kWarm:
      if (step_ > 1) warm_ms_.push_back(ms);
      if (step_ < kWarmSteps) return;
      expected_ms_ = median(warm_ms_);
      return start();
    case Phase::kCompile: return;
    case Phase::kRehearsal: return compare();
    case Phase::kWatch:
      if (pieces_ && looks_ == 0) feel(ms);
      return timed.empty() ? void() : watch(timed);
    case Phase::kTrial: break;
  }
  if (timed.empty()) return;
  Timed& side = running_ == trial_.get() ? fresh_ : old_;
  side.ms.push_back(std::accumulate(timed.begin(), timed.end(), 0.0));
  side.nodes.push_back(pieces_->node_ms(*running_, timed));
  const std::size_t rounds = candidate_.purpose == Purpose::kChoice ? kChoiceRounds : kRounds;
  if (old_.ms.size() >= rounds && fresh_.ms.size() >= rounds) judge();
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

// Has the step become another one? What was measured before is worth nothing then. A single odd step is none.
void Tuner::feel(double ms) {
  last_ms_[static_cast<std::size_t>(step_) % last_ms_.size()] = ms;
  if (last_ms_.front() == 0 || last_ms_.back() == 0) return;
  const double now_ms = median({last_ms_.begin(), last_ms_.end()});
  if (!drift_.add(now_ms, expected_ms_) || step_ < calm_until_) return;
  ++drifts_;
  calm_until_ = step_ + (kCalm << std::min(10, idle_drifts_++));
  std::string line = fmt::format("steps take {:.2f} ms where {:.2f} was usual", now_ms, expected_ms_);
  expected_ms_ = now_ms;
  const bool is_tried = can_afford();
  log_.push_back(line + (is_tried ? ": strategies are tried again" : "; trials have had their share of the run"));
  if (!is_tried) return;
  times_.clear();
  refused_.clear();
  looks_ = options_.tuning.subgraphs.window;
}

}  // namespace neap
