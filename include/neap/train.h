// Training: options, the trainer, and what it reports. See docs/architecture.md for what happens inside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neap/checkpointing.h"
#include "neap/model.h"
#include "neap/precision.h"
#include "neap/tuning.h"

namespace neap {

struct OptimizerOptions {
  std::string name = "adamw";  // sgd, adam, adamw
  double lr = 1e-3;
  double momentum = 0.9;  // sgd
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 0;  // global norm; 0: off
};

// How the learning rate moves from step to step.
struct ScheduleOptions {
  std::string name = "constant";  // constant, step, cosine, linear
  std::int64_t warmup = 0;        // steps of linear rise from 0
  std::int64_t every = 1000;      // step: multiply by `factor` every so many steps
  double factor = 0.1;
  double floor = 0;  // cosine, linear: share of lr at the end
};

// How recurrent layers run. No result depends on any of it.
struct RecurrentTraining {
  std::string gear = "adaptive";   // adaptive, rolled, unrolled:X, whole, hybrid:N
  std::string gates = "adaptive";  // adaptive, keep, recompute: what backward reads of a chunk
  std::string offered = "rolled,unrolled:2,unrolled:4,unrolled:8,unrolled:16,whole,hybrid:8";  // adaptive's choice
  std::string learnt;     // what `neap pretrain recurrent` wrote, as text; empty: what Neap comes with
  double epsilon = 0.01;  // share of the agent's choices that are tries
  int dwell = 2;          // chunks of a layer that a gear stays at least
  int most_switches = 4;  // of a layer in one sequence
};

struct TrainOptions {
  std::string model = "mlp";  // "lstm-lm:hidden=1024" or a file: see open_model(). Unused with a Model of one's own
  std::string data = "synthetic";
  std::string eval;  // a data set or a split ("test"); empty: none
  std::int64_t steps = 100;
  std::int64_t batch = 0;      // 0: the model's own
  std::string batch_schedule;  // STEP:SAMPLES,...: from that step on a batch has so many samples
  // Parts of equal size that a batch is computed in; gradients are their mean. 0: as few as the budget needs.
  std::int64_t accumulate = 1;
  bool accumulate_batch_norm = false;  // allow that batch norm sees parts only
  // Parts of a batch that take turns within a step, layer by layer; batch norm sees all of them. 0: the fewest of which
  // the least plan fits into the budget.
  std::int64_t split = 1;
  // Recurrent layers go on where the batch before has ended; batches are then consecutive pieces of the data.
  bool carry_state = false;
  std::int64_t length = 0;        // time steps of a sequence; 0: the model's own. With varying lengths: of the longest
  std::string lengths = "fixed";  // fixed, varying: the paragraphs of a text, each batch padded to its longest
  std::string length_schedule;    // STEP:LENGTH,...: from that step on sequences have at most so many time steps
  std::int64_t image = 0;
  std::uint64_t seed = 0;
  std::string device = "cpu";
  std::string compute = "f32";  // of products: f32; bf16 with sums, weights and updates in f32; on CUDA tf32
  int threads = 0;              // 0: as many as there are
  std::string budget;           // "512MiB", "50%", "min"; empty: none
  std::string budget_schedule;  // STEP:SIZE,...: from that step on the budget is another one
  // adaptive, oracle, store-all, every-layer, sqrt, greedy, dtr, spill, bf16, int8, int4
  std::string policy = "adaptive";
  CheckpointingOptions checkpointing;
  // What is done to the graph before it runs: adaptive, off, all, or names with commas between (docs/optimizations.md).
  std::string optimize = "adaptive";
  // Weights that become zeros: 2:4, 4:8 (of each so many inputs that many stay), or a share as in 0.9; with
  // ",from=STEP" behind the update of that step, else of the first. Empty: none.
  std::string prune;
  // fixed: what the clock decides changes no bit. free: optimizations that differ in rounding may be chosen by time,
  // too.
  std::string numerics = "fixed";
  TuningOptions tuning;
  PrecisionOptions precision;
  RecurrentTraining recurrent;
  // How buffers get their places in the arena: best (several orders, then a search), first-fit. No result depends on
  // it.
  std::string buffers = "best";
  // Spilled tensors come back before they are waited for, and leave while calls go on. No result depends on it.
  bool prefetch = true;
  // Who predicts lifetimes when a batch has a shape that the run has not seen: lstm, lstm-layers, regression,
  // last-value, average. No result depends on it.
  std::string lifetimes = "lstm";
  std::string spill_dir;        // where the spill file lies (it has no name); empty: the system's temporary folder
  std::int64_t host_ram = 0;    // bytes of RAM beside the arena that spilled tensors may use, before the disk
  double spill_write_rate = 0;  // bytes/s, for tests: the disk is no faster than this; 0: as fast as it is
  double spill_read_rate = 0;
  std::string spill_fault;  // for tests: what goes wrong, as in corrupt-read:3
  std::string decisions;    // writes which plan and budget each step had: FILE.part until finish_decisions()
  std::string replay;       // such a file: its budgets and plans, at the same steps; `budget` is their limit
  bool trace = false;       // note when everything runs, for Trainer::write_trace()
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  bool shuffle = true;
  bool flip = false;                      // random horizontal flips
  std::int64_t crop = 0;                  // random crops from images padded by this much
  double validation = 0;                  // share of the data held out
  std::vector<std::string> freeze;        // patterns of parameter names, '*' and '?'
  std::optional<bool> frozen_batch_norm;  // not given: as the model says
  std::string loss;                       // cross-entropy, mse, ...; empty: the model's own
  std::string init;                       // safetensors to start from
  std::string checkpoint;                 // folder
  std::int64_t checkpoint_every = 100;
  bool resume = false;
  bool synchronous_planning = false;  // for tests: a run waits for its plans, so that they come at the same step always
  int planning_delay_ms = 0;          // for tests: plans made beside the run come so much later
  bool guard = false;                 // fault on any access above the arena
  // Memory of the application's, which outlives the trainer, to hold the arena: weights, gradients, optimizer state,
  // everything that steps need. It is a budget too. Empty: the trainer maps its own.
  std::span<std::byte> reservation;
  // Only kernels of Neap's own, none of oneDNN's: a step then allocates nothing at all.
  bool own_kernels = false;
};

struct StepReport {
  std::int64_t step = 0;  // 1 is the first
  float loss = 0;
  double step_ms = 0;
  double compute_ms = 0;  // of it, once the batch was on the device
  double lr = 0;
  std::int64_t batch = 0;   // samples
  std::int64_t length = 0;  // time steps of its sequences, padding included; 0: there are none
  std::int64_t tokens = 0;  // that the loss counts
  std::int64_t peak_bytes = 0;
  std::optional<std::int64_t> budget_bytes;
  std::int64_t spilled_bytes = 0;
  double transfer_ms = 0;  // that the channel to RAM and disk was busy with
  double stalled_ms = 0;   // that calls waited for it
  // How long copies between device and host ran, how long all else did, and both at once. Of steps with transfers, and
  // of those that a trace shows.
  double link_busy_ms = 0;
  double compute_busy_ms = 0;
  double overlap_ms = 0;
  std::string note;                       // what people should know; mostly empty
  double recomputed_ms = 0;               // of predicted_ms: for what is computed again
  double predicted_ms = 0;                // simulated_ms at the pace of the last steps, before the step ran; 0: none
  double simulated_ms = 0;                // by the simulator alone, from the calls' times; 0: it has no measured times
  std::int64_t simulated_peak_bytes = 0;  // the same
  std::int64_t plan = 0;                  // the number of the plan that ran; 1 is the run's first
  std::int64_t encoded_bytes = 0;
  std::vector<std::string> tuning;  // what was tried, chosen, split or merged, with the reason; mostly empty
};

struct EvalReport {
  double loss = 0;
  // Where the model has classes: the share of right answers (of right next tokens, for language models), and exp(loss).
  std::optional<double> accuracy;
  std::optional<double> perplexity;
  std::int64_t samples = 0;
};

// A saved tensor that may be stored in fewer bits; "fp32" where the plan does not.
struct StoredTensorReport {
  std::string name;
  std::string layer;
  std::string level;
  double error = 0;        // variance that it adds to the net's gradient, relative to the minibatch's own
  double sensitivity = 1;  // measured; by the kind of layer until then
  double mean = 0;         // of the last profile, like what follows
  double deviation = 0;
  double entropy = 0;  // bits
  std::int64_t outliers = 0;
};

// What a recurrent layer did lately. A reading that is absent weighs nothing in the agent's reward.
struct RecurrentReport {
  std::string layer;
  std::string gear;  // of most of its chunks in the last step
  std::string gates;
  double forward_us = 0;  // of a time step, in the last step
  double backward_us = 0;
  std::int64_t saved_bytes = 0;  // that backward reads, beside the layer's input
  std::int64_t workspace_bytes = 0;
  std::optional<double> utilisation;  // processor time over elapsed time and threads, of the layer's calls
  std::optional<double> miss_rate;    // of the largest cache
  std::string miss_source;            // hw, modelled or absent
  std::int64_t choices = 0;           // of the agent, in all
  std::int64_t switches = 0;          // of gears, in all
};

struct Summary {
  std::string model;
  std::string device;
  std::string policy;
  std::int64_t steps = 0;
  std::int64_t batch = 0;                            // of the last step
  std::int64_t parts = 1;                            // that a batch is computed in
  std::int64_t split = 1;                            // that each of them is cut into within a step
  std::optional<std::int64_t> budget_bytes;          // of the last step
  std::optional<std::int64_t> largest_budget_bytes;  // that a step had; none: some step had no budget
  std::int64_t peak_bytes = 0;                       // of all steps; before the first of the plan that waits for it
  std::int64_t store_all_bytes = 0;
  std::int64_t state_bytes = 0;
  std::int64_t min_budget_bytes = 0;
  std::int64_t violations = 0;
  double median_step_ms = 0;     // 0: this run has not made a step
  double predicted_step_ms = 0;  // of the last step, by the simulator; 0: no times were measured
  // Of the last step, as in its report.
  double link_busy_ms = 0;
  double compute_busy_ms = 0;
  double overlap_ms = 0;
  std::string busy_source;  // "cupti": records of each kernel and copy; "waits": how long calls waited; empty: neither
  double steering_share = 0;
  std::int64_t steering_bytes = 0;  // that agents, levels and plans beside those that run take outside of the arena
  std::int64_t rss_peak_bytes = 0;
  double planning_ms = 0;
  double planning_wait_ms = 0;  // that steps waited for plans which were not ready
  std::int64_t plan_swaps = 0;  // plans that took another's place between two steps
  std::int64_t replays = 0;     // of steps whose spilled bytes were lost, or that could not be encoded
  // Activations kept when backward begins: by the last plan, and when everything is stored exactly.
  std::int64_t saved_bytes = 0;
  std::int64_t exact_saved_bytes = 0;
  // Gradient variance that storing in fewer bits adds, relative to the minibatch's own: by the plan that ran last.
  double encoding_error = 0;
  std::int64_t kept_exact = 0;             // tensors whose level could not hold their values, counted as it happened
  std::vector<StoredTensorReport> stored;  // by the plan that ran last; empty: no tensor may have fewer bits
  std::string numerics_id;
  std::int64_t context_bytes = 0;
  float loss_last = 0;  // without a step of this run (median_step_ms 0) of no meaning
  std::string weights_hash;
  std::vector<RecurrentReport> recurrent;  // a row a layer and direction
  TuningReport tuning;
};

// One layer's row of a profile.
struct LayerReport {
  std::string name;
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;
  double gflop = 0;
  std::int64_t traffic_bytes = 0;    // read and written, counted
  std::int64_t saved_bytes = 0;      // kept for backward
  std::int64_t parameter_bytes = 0;  // that forward reads; shared ones count in each layer
  std::string bound;                 // "compute" or "memory"
};

// What one call ran on a GPU, in one step.
struct KernelReport {
  std::string kernel;
  std::string node;
  std::string op;
  std::string layer;
  double ms = 0;
  std::int64_t launches = 0;
};

struct KernelProfile {
  std::vector<KernelReport> kernels;  // of one step, in the order in which they first ran
  std::string missing;  // why there are none and times have gaps in them; empty: there is no reason to tell
};

struct PlanReport {
  bool feasible = true;
  std::optional<std::int64_t> budget_bytes;
  std::int64_t min_budget_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound_bytes = 0;
  std::int64_t store_all_bytes = 0;
  std::int64_t state_bytes = 0;
  std::int64_t outside_bytes = 0;  // that it takes at most beside the arena, in RAM or a file
  double predicted_step_ms = 0;
  double planning_ms = 0;
  struct Layer {
    std::string name;
    std::string action;
    std::int64_t kept_bytes = 0;
    std::string precision;
    double error = 0;  // as StoredTensorReport::error
    std::string reason;
    std::int64_t freed_bytes = 0;  // that store-all would keep of it in the arena
    double added_ms = 0;           // for that, a step
  };
  std::vector<Layer> layers;
  // Bytes alive at each instruction, state included, and the instruction at which backward begins.
  std::vector<std::int64_t> live_bytes;
  // The same by kind: state, inputs, activations kept, activations in use, gradients, workspace.
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> live_parts;
  std::int64_t backward_begins = 0;
  // What the fullest moment consists of (state, kept activations, gradients, ...), and the layer that it falls in.
  std::string peak_layer;
  std::vector<std::pair<std::string, std::int64_t>> peak_parts;
};

// What --budget holds at most: a batch, or a length of its sequences.
struct FitReport {
  std::string what;  // "batch" or "length"
  std::int64_t budget_bytes = 0;
  std::int64_t largest = 0;
  std::int64_t step = 1;               // of which sizes are multiples: parts of a batch, or where lengths vary 16
  std::int64_t split = 1;              // parts that take turns; with split 0 (auto) those that allow the most
  std::int64_t min_budget_bytes = 0;   // that it needs
  std::int64_t next_bytes = 0;         // that `step` more would need; 0: the model takes no more
  std::int64_t outside_bytes = 0;      // that it takes at most beside the budget, in RAM or a file
  std::int64_t store_all_largest = 0;  // with everything stored; 0: none
  double predicted_step_ms = 0;        // of `largest` within the budget
  std::string limit;                   // what sets the limit, in words
};

// Writes one input of the next batch: `dst` is dense [batch, ...] of the input's type, in the batch and length that the
// schedules have for the step. Called once an input and step, in the order in which the model made its inputs.
using Feed = std::function<void(std::string_view input, std::span<std::byte> dst)>;

class Trainer {
 public:
  // Builds, plans and loads everything. UserError: the options are wrong; DoesNotFit: the budget is below the minimum.
  Trainer(std::shared_ptr<const Model> model, const TrainOptions& options);
  // The same with batches that the application gives: no data set is opened, no thread loads, TrainOptions::data is not
  // used, and there is nothing to evaluate() on.
  Trainer(std::shared_ptr<const Model> model, const TrainOptions& options, Feed feed);
  // The same for the model that the options name.
  explicit Trainer(const TrainOptions& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Steps done so far (more than 0 after a resume).
  std::int64_t step() const;
  // One training step. Allocates no memory when the application feeds it (TrainOptions::own_kernels).
  StepReport advance();
  // Over the evaluation data; needs TrainOptions::eval or ::validation.
  EvalReport evaluate();
  // Trained weights and buffers as a .safetensors file; any other name goes to Model::save.
  void save(const std::string& path) const;
  // A checkpoint in TrainOptions::checkpoint, from which a run goes on to the same bits.
  void checkpoint() const;

  // The last steps as a file for ui.perfetto.dev: calls, transfers, live bytes, and who had which piece of the arena.
  // False: advance() has thrown in the middle of a step, and what the weights are now must not be saved.
  bool is_whole() const;
  // Needs TrainOptions::trace.
  void write_trace(const std::string& path) const;
  // The file of TrainOptions::decisions is complete from now on; nothing when none was asked for.
  void finish_decisions();
  // From the next step on: bytes, "512MiB", "50%", "min+10%". Any thread may call it. UserError when malformed, or when
  // the run follows another's decisions. A budget below the minimum is taken as the minimum; returns what will hold.
  std::int64_t set_budget(std::string_view text);
  // Until plans that are being made beside training are there; the next step takes them up. For those who time steps of
  // several trainers in turn: planning takes processor time.
  void wait_for_plans();
  // Physical memory that the arena takes now.
  std::int64_t resident_bytes() const;

  Summary summary() const;
  // What the agent has learnt, for CheckpointingOptions::learnt of another run; empty: the policy does not learn.
  std::string learnt() const;
  // Of the shape that ran last.
  PlanReport plan() const;
  // What Summary::predicted_step_ms would be with the exact plan for the present budget: the yardstick of regret. Plans
  // once. None: there is no budget below store-all, or nothing was measured.
  std::optional<double> oracle_step_ms() const;
  // Per-layer times over some steps; the weights move as in training.
  std::vector<LayerReport> profile(int steps);
  // Of the last step of the last profile, where the device has a log of what it runs.
  const KernelProfile& kernels() const;
  // What more bytes would bring by the times that were measured, and which sizes would fit. Plans several times.
  std::vector<std::string> advice() const;
  // Some steps of training, whose allocations and lifespans go to a file (docs/formats.md): predictors of lifetimes
  // learn from it.
  void record(int steps, const std::string& path);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What a training run would take, without allocating an arena or reading data.
PlanReport plan_training(std::shared_ptr<const Model> model, const TrainOptions& options);
PlanReport plan_training(const TrainOptions& options);

// What would help, in words: bytes that would make a step faster, and by how much; the batch and the length that would
// fit. `report` is what plan_training() says of these options. Plans several times.
std::vector<std::string> advise(const std::shared_ptr<const Model>& model, const TrainOptions& options,
                                const PlanReport& report);

// The largest batch (what: "batch") or length ("length") that TrainOptions::budget, a number of bytes, holds. Plans
// only. DoesNotFit: not even 1 does.
FitReport fit_training(const std::shared_ptr<const Model>& model, const TrainOptions& options, const std::string& what);

}  // namespace neap
