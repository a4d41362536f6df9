// Optimizations chosen for each subgraph while training runs. Variants of the step's graph are compiled beside the run;
// a rehearsal on the batch of a step shows that a variant gives the same; then it takes turns with what runs, in steps
// that count, and every subgraph is timed, until it is clear which is faster: soon where it is slower, longer where
// they are close. What is faster stays; from times by subgraph the agent learns, and chooses what is tried next. When
// steps become slower or faster, all of it begins anew. It costs at most a share of the run: when that is spent,
// nothing more is tried.
#pragma once

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/drift.h"
#include "train/duel.h"
#include "train/pieces.h"
#include "train/setup.h"
#include "train/strategy_times.h"

namespace neap {

// What is charged to that share, beside what variants take longer.
// kLook: steps whose calls are timed, where that takes time itself.
enum class Effort : std::uint8_t { kStart, kMake, kRehearse, kLearn, kLook };

struct TunerOptions {
  std::vector<const Optimization*> library;
  TuningOptions tuning;
  std::int64_t steps = 0;       // of the run
  bool is_synchronous = false;  // waits for variants: in tests, and where kernels are made by one thread alone
  std::uint64_t seed = 0;
  std::function<double(Effort)> made_up_ms;  // for tests: instead of the clock
};

// The library that a run may choose from; none: nothing to choose, or a run too short to try anything. UserError: wrong
// settings, whatever the run.
std::optional<TunerOptions> tuner_options(const TrainOptions& options, const Setup& setup);

// What is done to every step of such a run: what `optimize` names, without that library.
std::string settled_passes(std::string_view optimize, const std::vector<const Optimization*>& library,
                           bool is_cuda = false);

// What it needs of a run.
struct TunedRun {
  Device& device;
  Arena& arena;
  std::function<Graph()> settled;        // makes the step before any optimization of the library
  Stepper& base;                         // what runs at first; outlives the tuner
  std::function<void(Stepper&)> put_in;  // enters a stepper and writes the batch of this step
};

class Tuner {
 public:
  Tuner(TunedRun run, TunerOptions options);
  ~Tuner();

  // Before a step whose batch is there: who runs it, until the next call. Within `budget` (none: within the arena's
  // addresses).
  Stepper& before(std::optional<std::int64_t> budget);
  // How that step is to be run: with times of its instructions, or by run_noted().
  bool wants_times() const;
  bool wants_notes() const { return phase_ == Phase::kRehearsal; }
  void run_noted();
  // After it: milliseconds, and of every instruction (empty: they were not timed).
  void after(double ms, const std::vector<double>& timed);

  // What runs when nothing is being tried.
  Stepper& current() { return adopted_ ? *adopted_ : run_.base; }
  // What has happened since the last call, one line each: trials, choices, splits and merges with their reasons.
  std::vector<std::string> take_log();
  // Of that, what people should know: another variant stays, or an optimization was wrong. Mostly empty.
  std::string take_note();
  TuningReport report() const;
  // Of the agent, of times and of the plans that it keeps beside those that run.
  std::int64_t bytes() const;

 private:
  // kRehearsal: the variant has shown what it would do, and the step that counts is to do the same.
  enum class Phase : std::uint8_t { kWarm, kCompile, kRehearsal, kTrial, kWatch };
  enum class Purpose : std::uint8_t { kLearn, kChoice, kRepair };
  struct Variant {
    Actions actions;
    Purpose purpose = Purpose::kLearn;
    std::shared_ptr<Program> program;
    StateLayout layout;
    Plan plan;
    double ms = 0;  // that making it took
  };

  // tuner.cc: from phase to phase
  void start();
  void begin();
  void align();
  void next();
  void rest();
  bool has_room(const Plan& plan);  // in the arena, which grows for it
  void give_up();
  void forget();
  void compile(Actions actions, Purpose purpose);
  Variant make(const Actions& actions) const;
  void deploy(std::int64_t most);
  void begin_trial();
  void watch(const std::vector<double>& timed);
  bool has_drifted(double ms);
  void time_trial(const std::vector<double>& timed);
  void charge_look(double ms);
  double allowed_ms() const;
  bool can_afford(bool is_shown = false) const;
  bool is_shown(const Actions& actions) const;
  void spend(Effort effort, double ms);

  // tuner_rehearsal.cc: whether a variant gives the same
  void rehearse();
  void compare();
  void prove();
  void reject(const std::set<const Optimization*>& wrong, const std::string& why);
  void repair(std::int64_t most);
  double allowed_error() const;
  using Passes = std::set<const Optimization*>;
  Passes used(const Actions& actions) const;
  Passes suspects() const;
  bool is_rejected(int action) const;
  bool is_proven(int action) const;

  // tuner_choice.cc: what is tried, learnt and chosen
  std::optional<Actions> untried();
  std::optional<Actions> promising();
  bool has_spent_all(const Difference& whole) const;
  bool is_decided(const Difference& whole) const;
  void judge();
  void settle(const Difference& whole, Verdict verdict);
  void learn();
  void note(std::size_t piece, const std::vector<double>& old, const std::vector<double>& fresh);
  std::optional<StrategyTimes::Known> known(std::size_t piece, int action) const;
  double predicted_ms(const Actions& actions) const;
  int choice_for(std::size_t piece, double now_ms);
  void adopt(std::unique_ptr<Stepper> stepper);

  std::string text_of(const Actions& actions) const;
  std::string key_of(const Actions& actions) const;

  TunedRun run_;
  TunerOptions options_;
  std::vector<Way> ways_;
  std::unique_ptr<Pieces> pieces_;  // null: nothing has been tried yet
  dqn::Agent agent_;
  std::shared_ptr<const Program> base_program_;  // where the state lies: a compiling thread reads it
  Plan base_plan_;
  Phase phase_ = Phase::kWarm;
  std::unique_ptr<Stepper> adopted_;  // null: the run's own
  std::unique_ptr<Stepper> trial_;
  std::unique_ptr<Stepper> retired_;  // of the last step, to which somebody may still hold on
  Stepper* running_ = nullptr;
  Actions current_actions_, base_actions_;
  Variant candidate_;
  std::future<Variant> compiling_;

  StrategyTimes times_;
  std::vector<std::set<int>> tried_;        // of each piece, since the last cut
  Duel duel_;                               // of a trial
  std::vector<double> node_ms_;             // when last looked at
  std::vector<Rehearsed> promised_, done_;  // of a rehearsal
  Passes proven_;                           // that gave what the settled step gives
  Passes rejected_;                         // that did not
  std::set<std::string> shown_;             // variants that gave the same
  std::set<Actions> refused_;               // choices that were not worth it

  Shift shift_;
  std::array<double, 5> last_ms_{};  // of the last steps
  std::int64_t felt_ = 0;            // of them, so far
  double expected_ms_ = 0;           // of a step
  double least_ms_ = 0;              // the least that was ever expected
  std::int64_t calm_until_ = 0;      // step
  int idle_drifts_ = 0;              // after which nothing was adopted
  int looks_ = 0;                    // steps to come that are timed, before something is tried

  std::vector<double> warm_ms_;
  double elapsed_ms_ = 0;
  double compile_ms_ = 0;  // of the last variant
  double lesson_ms_ = 0;   // of the agent's last
  double spent_ms_ = 0;
  double unpaid_ms_ = 0;  // of that: since something was adopted
  std::int64_t step_ = 0;
  std::vector<std::string> log_;
  std::string note_;
  int trials_ = 0, adoptions_ = 0, changes_ = 0, drifts_ = 0, overruled_ = 0;
};

}  // namespace neap
