#include "cli/train_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/output.h"
#include "cli/ranges.h"
#include "core/bytes.h"
#include "device/cpu/bf16.h"
#include "neap/error.h"
#include "optimize/optimization.h"
#include "train/schedule.h"

namespace neap {
namespace {

// 0: auto.
std::int64_t parts_of(const std::string& flag, const std::string& text) {
  if (text == "auto") return 0;
  std::int64_t parts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts);
  if (error != std::errc{} || end != text.data() + text.size() || parts < 1) {
    throw UserError(fmt::format("{} '{}': take a number of parts from 1 on, or auto", flag, text));
  }
  return parts;
}

void add_model_flags(CLI::App& app, TrainOptions& o) {
  app.add_option("MODEL", o.model, "a built-in model, with parameters where wanted (lstm-lm:hidden=1024), or FILE.onnx")
      ->required();
  app.add_option("--data", o.data,
                 "fashion-mnist, IDX/NPY/NPZ files (A=X.npy,B=Y.npy by name), a text or token file, or synthetic");
  app.add_option("--batch", o.batch, "samples a step")->check(positive());
  app.add_option("--batch-schedule", o.batch_schedule, "other batches from some steps on: STEP:SAMPLES,STEP:SAMPLES");
  app.add_option_function<std::string>(
         "--accumulate", [&o](const std::string& text) { o.accumulate = parts_of("--accumulate", text); },
         "parts in which a batch is computed, gradients are their mean; auto: as few as the budget needs")
      ->type_name("INT|auto");
  app.add_option_function<std::string>(
         "--split", [&o](const std::string& text) { o.split = parts_of("--split", text); },
         "parts of a batch that take turns within a step, layer by layer; auto: as few as the budget needs")
      ->type_name("INT|auto");
  app.add_flag("--accumulate-batch-norm", o.accumulate_batch_norm, "let batch norm see parts of a batch");
  app.add_flag("--carry-state", o.carry_state, "recurrent layers go on where the batch before has ended");
  app.add_option("--length", o.length, "time steps of a language model")->check(positive());
  app.add_option("--lengths", o.lengths,
                 "fixed, or varying: the paragraphs of a text, each batch padded to its longest")
      ->check(CLI::IsMember({"fixed", "varying"}));
  app.add_option("--length-schedule", o.length_schedule,
                 "other lengths from some steps on, up to --length: STEP:LENGTH,STEP:LENGTH");
  app.add_option("--image", o.image, "side of the images")->check(positive());
  app.add_option("--device", o.device, "cpu, cuda or null")->check(CLI::IsMember({"cpu", "cuda", "null"}));
  app.add_option("--threads", o.threads, "threads to compute with")->check(CLI::Range(1, 1024));
  app.add_option("--budget", o.budget, "bytes, 512MiB, min, or a share of what storing everything needs: 50%");
  app.add_option("--budget-schedule", o.budget_schedule, "other budgets from some steps on: STEP:SIZE,STEP:SIZE");
  app.add_option("--policy", o.policy, "what becomes of activations")
      ->check(CLI::IsMember({"adaptive", "oracle", "store-all", "every-layer", "sqrt", "greedy", "dtr", "spill", "bf16",
                             "int8", "int4"}));
  app.add_option("--optimize", o.optimize, "what is done to the graph: adaptive, off, all, or NAME,NAME");
  app.add_option("--prune", o.prune, "weights to zero: 2:4 (two of four inputs stay), or a share as 0.9; ,from=STEP");
  app.add_option("--buffers", o.buffers, "how buffers get their places: best of many orders, or first-fit")
      ->check(CLI::IsMember({"best", "first-fit"}));
  app.add_flag("--prefetch,--no-prefetch{false}", o.prefetch, "fetch what waits outside before it is needed");
  app.add_option("--lifetimes", o.lifetimes, "who predicts lifetimes for batches of a new shape");
  app.add_option("--spill-dir", o.spill_dir, "folder on a fast disk for what leaves the arena");
  app.add_option_function<std::string>(
      "--host-ram", [&o](const std::string& text) { o.host_ram = parse_bytes(text); },
      "RAM beside the arena for what leaves it, before the disk");
  // Settings of tests.
  app.add_option("--spill-write-rate", o.spill_write_rate)->group("");
  app.add_option("--spill-read-rate", o.spill_read_rate)->group("");
  app.add_option("--spill-fault", o.spill_fault)->group("");
  app.add_flag("--synchronous-planning", o.synchronous_planning)->group("");
}

void add_optimizer_flags(CLI::App& app, TrainFlags& flags) {
  OptimizerOptions& o = flags.options.optimizer;
  app.add_option("--optimizer", o.name, "sgd, adam or adamw")->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--lr", o.lr, "learning rate");
  app.add_option("--momentum", o.momentum, "of sgd");
  app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum");
  app.add_option("--beta1", o.beta1, "of adam");
  app.add_option("--beta2", o.beta2, "of adam");
  app.add_option("--epsilon", o.epsilon, "of adam");
  app.add_option("--weight-decay", o.weight_decay, "of every optimizer");
  app.add_option("--clip", o.clip, "largest global norm of the gradients");
  app.add_option("--schedule", flags.schedule, "constant, step, cosine or linear, as in cosine:warmup=100,floor=0.1");
}

void add_run_flags(CLI::App& app, TrainFlags& flags) {
  TrainOptions& o = flags.options;
  app.add_option("--seed", o.seed, "of initial weights, shuffling and dropout")->check(not_negative());
  app.add_flag("--shuffle,!--no-shuffle", o.shuffle, "new order of the samples in every epoch");
  app.add_flag("--flip", o.flip, "random horizontal flips of images");
  app.add_option("--crop", o.crop, "random crops from images padded by this many pixels")->check(not_negative());
  app.add_option("--freeze", o.freeze, "parameters that stay as they are (pattern with * and ?)")
      ->allow_extra_args(false)  // MODEL may follow
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--bn", flags.bn, "train or frozen")->check(CLI::IsMember({"train", "frozen"}));
  app.add_option("--init", o.init, "weights to start from, a .safetensors file");
  app.add_option("--numerics", o.numerics,
                 "fixed, or free: optimizations may be chosen by time though they differ in rounding")
      ->check(CLI::IsMember({"fixed", "free"}));
  app.add_option("--compute", o.compute,
                 "of products: f32; bf16 with sums, weights and updates in f32; on a GPU also tf32, of f32 tensors")
      ->check(CLI::IsMember({"f32", "tf32", "bf16"}));
  app.add_option("--loss", o.loss, "of a model that has none of its own; cross-entropy-channels has classes on axis 1")
      ->check(CLI::IsMember({"cross-entropy", "cross-entropy-channels", "mse", "l1", "smooth-l1", "bce", "nll"}));
}

// "LAYERS,BATCHES" or "BATCHES".
void read_granularity(const std::string& text, PrecisionOptions& o) {
  std::istringstream in(text);
  std::int64_t first = 0;
  std::int64_t second = 0;
  char comma = 0;
  bool is_good = static_cast<bool>(in >> first);
  const bool has_two = is_good && in.peek() == ',';
  if (has_two) is_good = static_cast<bool>(in >> comma >> second);
  if (!is_good || in.peek() != std::char_traits<char>::eof()) {
    throw UserError(fmt::format("--profiling-granularity '{}': write LAYERS,BATCHES as in 1,16", text));
  }
  o.profiling_layers = has_two ? first : 1;
  o.profiling_batches = has_two ? second : first;
}

void add_precision_flags(CLI::App& app, PrecisionOptions& o) {
  app.add_option("--tolerance,--target-accuracy,--target_accuracy", o.tolerance,
                 "exact, or the gradient variance that storing in fewer bits may add: default (0.1), or a number");
  app.add_option("--precision-levels,--precision_levels", o.levels, "that may be chosen: fp32,fp16,bf16,int8,int4");
  app.add_option("--default-precision,--default_precision", o.default_precision, "until there is a profile");
  app.add_option("--precision-choice", o.choice, "by computed threshold, or by table");
  app.add_option("--precision-table", o.table, "CLASS=LEVEL,...: product, norm, activation, attention, recurrent");
  app.add_option("--carried-precision", o.carried,
                 "of the state that --carry-state keeps: fp32, with a tolerance bf16, or what is given");
  app.add_option("--profiling-window,--profiling_window", o.profiling_window, "profiles that a choice looks back on");
  app.add_option_function<std::string>(
      "--profiling-granularity,--profiling_granularity", [&o](const std::string& text) { read_granularity(text, o); },
      "LAYERS,BATCHES: profiles every so many layers and steps");
  app.add_flag("--flow-quantized,--flow_quantized", o.flow_quantized, "forward computes with what was rounded, too");
  app.add_flag("--quantize-recompute-inputs,--quantize_recompute_inputs", o.quantize_recompute_inputs,
               "also tensors from which others are made again");
}

void add_tuning_flags(CLI::App& app, TuningOptions& o) {
  SubgraphOptions& s = o.subgraphs;
  app.add_option("--initial-granularity,--initial_granularity", s.initial_granularity,
                 "cuts from the whole graph down to the first subgraphs");
  app.add_option("--performance-threshold,--performance_threshold", s.performance_threshold,
                 "share of the roofline below which a subgraph is split");
  app.add_option("--merging-threshold,--merging_threshold", s.merging_threshold,
                 "share of the roofline above which neighbours are merged");
  app.add_option("--window", s.window, "samples in a row that a split or a merge needs");
  app.add_option("--cooldown", s.cooldown, "samples in which a subgraph that has changed is left alone");
  app.add_option("--rl-training-epochs,--RL_training_epochs", o.rl_training_epochs,
                 "of the agent that chooses optimizations, whenever it has learnt something");
  app.add_option("--trial-share", o.trial_share, "of a run's steps that trials of optimizations may cost");
}

std::string read_text(const char* flag, const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 24;  // far more than any of them has
  std::ifstream in(path, std::ios::binary);
  std::string out(kMost, '\0');
  in.read(out.data(), static_cast<std::streamsize>(kMost));
  out.resize(static_cast<std::size_t>(in.gcount()));
  if (out.empty()) throw UserError(fmt::format("{} '{}' cannot be read, or is empty", flag, path));
  return out;
}

RewardWeights parse_weights(const std::string& text) {
  std::istringstream in(text);
  RewardWeights out;
  char comma = 0;
  char second = 0;
  if (!(in >> out.time >> comma >> out.memory >> second >> out.bandwidth) || comma != ',' || second != ',' ||
      in.peek() != std::char_traits<char>::eof()) {
    throw UserError(fmt::format("--reward-weights '{}': write time,memory,bandwidth as in 1,0,0", text));
  }
  return out;
}

void add_agent_flags(CLI::App& app, TrainFlags& flags) {
  CheckpointingOptions& o = flags.options.checkpointing;
  app.add_option("--every", o.every, "checkpoints every N layers: the N that the agent may choose, beside 1")
      ->delimiter(',')
      ->allow_extra_args(false)  // MODEL may follow
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--reward", o.reward, "of the agent: constrained, or document (-memory - 0.1 * time)")
      ->check(CLI::IsMember({"constrained", "document"}));
  app.add_option_function<std::string>(
      "--reward-weights", [&o](const std::string& text) { o.weights = parse_weights(text); },
      "time,memory,bandwidth: instead of the reward's own");
  app.add_option("--explore", o.epsilon, "share of the agent's choices that are tries")->check(CLI::Range(0.0, 1.0));
  app.add_option("--learnt", flags.learnt, "what an agent learnt in another run (train --save-learnt)");
}

void add_recurrent_flags(CLI::App& app, TrainFlags& flags) {
  RecurrentTraining& o = flags.options.recurrent;
  app.add_option("--recurrent", o.gear, "how recurrent layers run: adaptive, rolled, unrolled:X, whole or hybrid:N");
  app.add_option("--gates", o.gates,
                 "of recurrent layers: adaptive, keep, recompute for backward, or LSTM layers by cudnn")
      ->check(CLI::IsMember({"adaptive", "keep", "recompute", "cudnn"}));
  app.add_option("--recurrent-gears", o.offered, "what adaptive chooses from, as in rolled,unrolled:8,whole");
  app.add_option("--recurrent-policy", flags.recurrent_policy, "what 'neap pretrain recurrent' wrote");
  app.add_option("--recurrent-explore", o.epsilon, "share of the choices that are tries")->check(CLI::Range(0.0, 1.0));
  app.add_option("--recurrent-dwell", o.dwell, "chunks that a gear stays at least")->check(CLI::Range(1, 1000000));
  app.add_option("--recurrent-switches", o.most_switches, "of a layer in one sequence, at most")->check(not_negative());
}

}  // namespace

std::string recurrent_policy_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/neap/recurrent.policy";
  return std::string(home != nullptr ? home : ".") + "/.cache/neap/recurrent.policy";
}

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // the command line over the config file
  flags.app = &app;
  add_model_flags(app, flags.options);
  add_optimizer_flags(app, flags);
  add_run_flags(app, flags);
  add_agent_flags(app, flags);
  add_precision_flags(app, flags.options.precision);
  add_recurrent_flags(app, flags);
  add_tuning_flags(app, flags.options.tuning);
  app.add_option("--config", flags.config, "flags from a file, one NAME = VALUE a line");
}

std::shared_ptr<const Model> open_noted_model(const std::string& name) {
  auto model = open_model(name);
  for (const std::string& note : model->notes()) tell(fmt::format("{}: {}", name, note));
  return model;
}

GivenFlags TrainFlags::given() const {
  GivenFlags out;
  for (const CLI::Option* option : app->get_options()) {
    if (option->count() > 0) out.insert(option->get_lnames().begin(), option->get_lnames().end());
  }
  return out;
}

void TrainFlags::finish() {
  complete();
  refuse_contradictions(options, given());
}

void TrainFlags::complete() {
  if (!schedule.empty()) options.schedule = parse_schedule(schedule);
  options.checkpointing.seed = options.seed;
  if (!learnt.empty()) options.checkpointing.learnt = read_text("--learnt", learnt);
  const std::string made_here = recurrent_policy_path();
  if (!recurrent_policy.empty()) {
    options.recurrent.learnt = read_text("--recurrent-policy", recurrent_policy);
  } else if (std::error_code none; std::filesystem::file_size(made_here, none) > 0 && !none) {
    options.recurrent.learnt = read_text("--recurrent-policy", made_here);
  }
  if (!bn.empty()) options.frozen_batch_norm = bn == "frozen";
  if (options.compute == "bf16" && options.device == "cpu" && !has_bf16_products()) {
    tell("bf16 products are emulated on this CPU (it has no AVX512_BF16): right, but slower than f32");
  }
  if (options.device == "cuda" && options.optimize == "all") {
    tell(fmt::format("--optimize all: a GPU does without {}", not_for_cuda(options.optimize)));
  }
}

}  // namespace neap
