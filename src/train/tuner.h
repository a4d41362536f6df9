// Optimizations chosen for each subgraph while training runs. Variants of the step's graph are compiled beside the run;
// a rehearsal on the batch of a step shows that a variant changes no bit; then it takes turns with what runs, in steps
// that count, and every subgraph is timed. The agent learns from that and chooses, and what it chose is timed once more
// before it stays. All that this costs is at most a share of the run's steps.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "train/pieces.h"
#include "train/setup.h"

namespace neap {

struct TunerOptions {
  std::vector<const Optimization*> library;  // whose results keep their bits
  TuningOptions tuning;
  std::int64_t steps = 0;       // of the run
  bool is_synchronous = false;  // for tests: waits for variants
  std::uint64_t seed = 0;
};

// The library that a run may choose from; none: nothing to choose, or a run too short to try anything. UserError: wrong
// settings, whatever the run.
std::optional<TunerOptions> tuner_options(const TrainOptions& options, const Setup& setup);

// What is done to every step of such a run: the rest of what `optimize` names.
std::string settled_passes(std::string_view optimize);

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
  bool wants_times() const;
  // After it: milliseconds, and of every instruction (empty: they were not timed).
  void after(double ms, const std::vector<double>& timed);

  // What runs when nothing is being tried.
  Stepper& current() { return adopted_ ? *adopted_ : run_.base; }
  // What has happened since the last call, one line each: trials, choices, splits and merges with their reasons.
  std::vector<std::string> take_log();
  // Of that, what people should know: another variant stays, or an optimization was wrong. Mostly empty.
  std::string take_note();
  TuningReport report() const;

 private:
  enum class Phase : std::uint8_t { kWarm, kCompile, kTrial, kWatch };
  struct Variant {
    Actions actions;
    bool is_choice = false;  // of the agent; else it is tried to learn from
    std::shared_ptr<Program> program;
    StateLayout layout;
    Plan plan;
    double ms = 0;  // that making it took
  };
  struct Timed {  // by step
    std::vector<double> ms;
    std::vector<std::vector<double>> pieces;
  };

  void start();
  void begin();
  void next();
  void compile(Actions actions, bool is_choice);
  Variant make(const Actions& actions) const;
  void deploy(std::int64_t most);
  bool agrees();
  void reject(const std::vector<std::string>& differing);
  void judge();
  void learn(const std::vector<double>& old, const std::vector<double>& fresh);
  void choose();
  void settle(double old_ms, double fresh_ms);
  void watch(const std::vector<double>& timed);
  bool can_afford() const;
  bool is_rejected(const Actions& actions) const;
  std::string text_of(const Actions& actions) const;

  TunedRun run_;
  TunerOptions options_;
  std::unique_ptr<Pieces> pieces_;  // null: nothing has been tried yet
  dqn::Agent agent_;
  std::shared_ptr<const Program> base_program_;  // where the state lies: a compiling thread reads it
  Plan base_plan_;
  Phase phase_ = Phase::kWarm;
  std::unique_ptr<Stepper> adopted_;  // null: the run's own
  std::unique_ptr<Stepper> trial_;
  std::unique_ptr<Stepper> retired_;  // of the last step, to which somebody may still hold on
  Actions current_actions_;
  Variant candidate_;
  std::future<Variant> compiling_;
  std::vector<Actions> to_try_;
  std::vector<std::map<int, double>> known_;  // of each piece: milliseconds by action
  Timed old_, fresh_;                         // of a trial
  std::set<int> rejected_;                    // actions that gave other results
  std::vector<double> warm_ms_;
  double step_ms_ = 0;     // what a step takes, before anything was tried
  double compile_ms_ = 0;  // of the last variant
  double spent_ms_ = 0;
  std::int64_t step_ = 0;
  std::int64_t turn_ = 0;
  Stepper* running_ = nullptr;
  std::vector<double> last_ms_;  // of each piece
  std::vector<std::string> log_;
  std::string note_;
  int trials_ = 0, adoptions_ = 0, changes_ = 0;
};

}  // namespace neap
