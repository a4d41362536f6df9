// Runs recurrent layers in the gears that the agent chooses, chunk by chunk while a sequence runs; notes what each did
// (the tape, which backward follows) and how long it took. What it chooses changes no bit of any result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "neap/train.h"
#include "observe/hardware_counters.h"
#include "policy/ppo/agent.h"
#include "policy/ppo/times.h"
#include "recurrent/tape.h"
#include "runtime/executor.h"

namespace neap {

class Gearbox final : public GearSource {
 public:
  // `learns`: the agent has lessons, which allocate; else it chooses by what it knows.
  Gearbox(const RecurrentTraining& options, std::uint64_t seed, bool learns = true);

  // Before a step of this executor. Allocates only when it is another than last time. Without backward it is inference:
  // there is nothing to learn from, and layers run in the gear that the agent holds best.
  void enter(Executor& executor, double headroom);
  // After the step, which took so long.
  void leave(double ms);

  std::uint32_t gear_for(std::uint32_t call) override;
  void has_run(std::uint32_t call) override;

  std::vector<RecurrentReport> report() const;
  const std::string& note() const { return note_; }  // what people should know of the policy file; mostly empty
  double overhead_ms() const { return overhead_ms_; }
  std::int64_t bytes() const;  // of the agent, and of what is known of the layers' times
  // Of the layer with this name in the last step; for tests.
  Tape tape(std::string_view layer) const;

 private:
  struct Chunk {
    std::int64_t start = 0, steps = 0;
    std::size_t action = 0;
    bool is_chosen = false;  // by the agent, in this step
    double forward_ms = 0, backward_ms = 0;
    double misses = -1;  // share of the references; negative: absent
  };
  struct Layer {
    std::string name;
    ppo::LayerState state;
    ppo::Times times;
    std::vector<Chunk> chunks;  // in the order of computation
    std::size_t current = 0;
    std::int64_t choices = 0, switches = 0;  // in all
    std::int64_t choices_now = 0;            // in this step
    std::int64_t saved_bytes = 0, workspace_bytes = 0;
    bool keeps_gates = true;
    double busy_ms = 0, elapsed_ms = 0;  // of its calls in this step: processors, and the clock
  };
  struct Call {
    std::size_t layer = 0, chunk = 0;
    bool is_backward = false, is_again = false;
  };

  void attach(Executor& executor);
  void remember();
  void recall(Layer& layer, bool is_training);
  static std::string key_of(const Layer& layer);
  void add_call(const Executor& executor, Tick tick);
  std::size_t layer_for(const Program& program, const Node& node);
  void set_limits(Layer& layer, std::int64_t unroll);
  void choose(std::size_t layer, Chunk& chunk);
  void reward(std::size_t layer);
  void note_readings(Layer& layer) const;

  RecurrentTraining options_;
  bool learns_;
  std::unique_ptr<ppo::Agent> agent_;  // null: the gear is fixed
  std::vector<ppo::Action> actions_;
  std::unique_ptr<HardwareCounters> counters_;
  std::string note_;
  const Executor* executor_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<Call> calls_;
  // Of layers as they ran before with other shapes of a batch, or in evaluation: what they took.
  std::map<std::string, ppo::Times> known_;
  std::vector<double> rewards_, us_;
  std::vector<std::size_t> taken_;
  Clock::time_point call_start_;
  double call_cpu_ms_ = 0;
  CounterReading before_;
  std::int64_t steps_ = 0;
  double credit_ms_;       // that choices and lessons may take
  double earned_ms_ = 0;   // since the last lesson
  double lesson_ms_ = 10;  // that the last one took; before the first one, about what that takes
  double overhead_ms_ = 0;
};

}  // namespace neap
