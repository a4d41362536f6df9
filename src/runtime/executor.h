// Walks a plan's instructions on a device. Knows no op by name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/activity.h"
#include "device/device.h"
#include "device/geared_kernel.h"
#include "plan/plan.h"
#include "pool/spill_store.h"
#include "precision/codec.h"
#include "precision/device_codec.h"
#include "precision/statistics.h"
#include "runtime/checks.h"
#include "runtime/gear_source.h"
#include "runtime/merge.h"
#include "runtime/prepare.h"
#include "runtime/rehearsal.h"
#include "runtime/trial.h"

namespace neap {

// When an instruction ran. Nanoseconds of the steady clock.
struct InstructionTime {
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
};

// Thrown by run(), before anything that stays is changed: tensors whose values the level of the plan cannot hold.
struct CannotEncode {
  struct Tensor {
    TensorId id;
    precision::Level level;
    unsigned flags = 0;  // precision::EncodeFlag
  };
  std::vector<Tensor> tensors;
};

class Executor {
 public:
  // The arena must hold plan.peak_bytes; the plan must be valid. Both outlive the executor, like program and device.
  // `store` is for plans with transfers; it may come later, but before a step.
  Executor(const Program& program, const Plan& plan, Device& device, Arena& arena, SpillStore* store = nullptr);

  void use(SpillStore* store) {
    store_ = store;
    replays_.clear();
  }
  // Before a step: what rounding draws from.
  void set_step(std::uint64_t seed, std::uint64_t step) {
    key_ = {.seed = seed, .step = step};
    failed_.clear();
  }
  // One whole step.
  void run();
  // The same, with the milliseconds of every instruction.
  void run_timed(std::vector<double>& ms);

  // A step that changes no state: what it would have changed it with, and its results. Inputs must be written before,
  // and again after it. With `has_sums` two of them can be compared within a tolerance.
  std::vector<Rehearsed> rehearse(bool has_sums = false);
  // A whole step, and the same of it.
  std::vector<Rehearsed> run_noted(bool has_sums = false);

  // The same as the device's log of activities says, where it has one: what kernels took, without the gaps between
  // them. The line returned says why it has none, if there is anything to say.
  std::string run_sampled(std::vector<double>& ms);

  // From now on run() notes when each instruction ran; of the last step. Where the device has a log of activities the
  // step runs as always; else one instruction at a time, and the line returned says why, if there is anything to say.
  std::string record();
  std::span<const InstructionTime> times() const { return times_; }  // empty: not recorded
  // Of the last step that was recorded or sampled; tags are instructions. Empty: there is no log.
  std::span<const Activity> activities() const { return activities_; }
  const Program& program() const { return program_; }
  const Plan& plan() const { return plan_; }
  const SpillStore* store() const { return store_; }

  // The same between calls of hook.before(i) and hook.after(i), i being the instruction's number.
  template <class Hook>
  void run_with(Hook&& hook) {
    begin_step();
    for (; done_ < launches_.size(); ++done_) {
      hook.before(done_);
      launch(launches_[done_]);
      hook.after(done_);
    }
  }

  // After an exception from run(): may the step be run again from its inputs? Not once a call has changed the state.
  bool can_run_again() const { return done_ <= first_change_; }

  // The host's side of state, inputs and results; valid between steps. A weight that waits outside has no such place;
  // it is written before the inputs are, by way of the place where it will come in (SpillLost when that fails).
  std::byte* at(TensorId id) const;
  bool is_host_memory() const { return is_host_memory_; }  // the host may write to at() by itself
  void write(TensorId id, const void* src);
  void read(TensorId id, void* dst) const;

  // What the steps to come show of tensors of forward, each right behind the call that makes it.
  struct Watched {
    TensorId tensor;
    std::size_t launch = 0;
    std::size_t output = 0;
    precision::Statistics statistics;
  };
  // Replaces what was watched. Tensors that no call of the plan makes are left out. Empty: nothing is.
  void watch(const std::vector<TensorId>& tensors);
  const std::vector<Watched>& watched() const { return watched_; }

  // From now on the source says in which gear these instructions run, whose kernels have gears; it gets their places in
  // the list. It outlives the executor, or the next call of this. Null: kernels choose by themselves.
  void set_gears(GearSource* source, const std::vector<Tick>& calls);
  bool has_gears_from(const GearSource* source) const { return gears_ == source; }

  // In the next step, the first call of backward that reads the tensor is tried with a disturbed copy of it before it
  // runs as it should: see runtime/trial.h. False: nothing reads it, or the arena has no room at that moment.
  bool arrange_trial(TensorId tensor, bool is_disturbed);
  // Of the last step; none: it had no trial.
  const std::optional<TrialResult>& trial() const { return trial_result_; }

  // The highest arena byte that an operand handed to a kernel has reached so far.
  std::int64_t peak_bytes() const { return peak_; }

 private:
  struct Launch {
    Kernel* kernel = nullptr;
    GearedKernel* geared = nullptr;  // the same, where somebody says in which gear it runs
    std::uint32_t geared_call = 0;   // its number there
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    std::byte* workspace = nullptr;
    std::int64_t top = 0;  // one past the highest arena byte among its operands
    NodeId node;
    Action action = Action::kRun;
    std::uint32_t slot = 0;  // of a transfer, whose bytes are the first input or output; of an encoding: its number
    precision::Level level = precision::Level::kFp32;  // of a codec
    std::int64_t elements = 0;                         // the same
    TensorId tensor;                                   // the same
    std::uint64_t key = 0;                             // the same: of its name, so that no plan changes it
  };

  std::int64_t top_of(const Operand& operand, std::int64_t bytes) const;
  Launch bind(const Instruction& instruction) const;
  Launch bind_transfer(const Instruction& instruction) const;
  Launch bind_codec(const Instruction& instruction) const;
  void begin_step();
  void transfer(const Launch& launch);
  void convert(const Launch& launch);
  void convert_on_device(const Launch& launch);
  void throw_failed_codes();
  void look(const Launch& launch);
  void judge_trial(const Launch& launch);
  void try_out(const Launch& launch);
  bool changes_state(const Launch& launch) const;
  void note(const TensorType& type, const std::byte* at, bool has_sums, Rehearsed& out) const;
  Rehearsed noted(const Launch& launch, bool has_sums) const;
  void note_results(bool has_sums, std::vector<Rehearsed>& out) const;
  void launch_without_change(const Launch& launch);
  void run_recorded();
  void run_logged();
  void launch_tagged();
  void place_times();
  void note_outside(const Launch& fetch);
  void tag(std::size_t instruction) {
    if (log_ != nullptr) log_->tag(static_cast<std::uint32_t>(instruction));
  }
  bool run_again();
  void capture_step();
  void find_merged();
  std::optional<BoundCall> bound(const Launch& launch, const std::vector<int>& readers) const;
  void launch(const Launch& launch);

  const Program& program_;
  const Plan& plan_;
  Device& device_;
  SpillStore* store_;
  std::byte* base_;
  bool is_host_memory_;
  std::vector<Launch> launches_;
  GearSource* gears_ = nullptr;
  std::unordered_map<std::uint32_t, std::byte*> homes_;
  struct Outside {
    std::uint32_t slot = 0;
    std::byte* comes_to = nullptr;
  };
  std::unordered_map<std::uint32_t, Outside> outside_;  // weights that lie in the store before a step
  std::vector<InstructionTime> times_;
  ActivityLog* log_ = nullptr;  // null: nobody looks
  std::vector<Activity> activities_;
  std::int64_t peak_ = 0;
  std::size_t first_change_ = SIZE_MAX;  // the first instruction that changes state
  precision::CodecKey key_;
  std::size_t last_encode_ = SIZE_MAX;
  std::vector<CannotEncode::Tensor> failed_;  // in this step
  std::vector<Watched> watched_;              // by launch
  std::size_t next_watched_ = 0;
  std::optional<Trial> trial_;
  std::optional<TrialResult> trial_result_;
  std::size_t done_ = 0;                           // instructions of this step
  std::unique_ptr<Checks> checks_;                 // only with NEAP_CHECKED
  std::unique_ptr<precision::DeviceCodec> codec_;  // where tensors do not lie in the host's memory
  // Of all launches, where the device has such a thing; two when encodings may fail: up to the last of them, and the
  // rest.
  std::vector<std::unique_ptr<Replay>> replays_;
  std::vector<MergedCalls> merged_;  // the launches, as they are captured
  bool is_capturing_ = false;
  int runs_ = 0;  // of all launches one by one
};

}  // namespace neap
