#include "cli/train_flags.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "core/bytes.h"
#include "neap/error.h"
#include "train/schedule.h"

namespace neap {
namespace {

void add_model_flags(CLI::App& app, TrainOptions& o) {
  app.add_option("MODEL", o.model, "a built-in model, with parameters where wanted (lstm-lm:hidden=1024), or FILE.onnx")
      ->required();
  app.add_option("--data", o.data,
                 "fashion-mnist, IDX/NPY/NPZ files (A=X.npy,B=Y.npy by name), a text or token file, or synthetic");
  app.add_option("--batch", o.batch, "samples a step")->check(CLI::PositiveNumber);
  app.add_option("--length", o.length, "time steps of a language model")->check(CLI::PositiveNumber);
  app.add_option("--lengths", o.lengths,
                 "fixed, or varying: the paragraphs of a text, each batch padded to its longest")
      ->check(CLI::IsMember({"fixed", "varying"}));
  app.add_option("--image", o.image, "side of the images")->check(CLI::PositiveNumber);
  app.add_option("--device", o.device, "cpu, cuda or null")->check(CLI::IsMember({"cpu", "cuda", "null"}));
  app.add_option("--threads", o.threads, "threads to compute with")->check(CLI::Range(1, 1024));
  app.add_option("--budget", o.budget, "bytes, 512MiB, min, or a share of what storing everything needs: 50%");
  app.add_option("--budget-schedule", o.budget_schedule, "other budgets from some steps on: STEP:SIZE,STEP:SIZE");
  app.add_option("--policy", o.policy, "what becomes of activations")
      ->check(CLI::IsMember({"adaptive", "oracle", "store-all", "every-layer", "sqrt", "greedy", "dtr", "spill"}));
  app.add_option("--optimize", o.optimize, "what is done to the graph: adaptive, off, all, or NAME,NAME");
  app.add_option("--lifetimes", o.lifetimes, "who predicts lifetimes for batches of a new length");
  app.add_option("--spill-dir", o.spill_dir, "folder on a fast disk for what leaves the arena");
  app.add_option_function<std::string>(
      "--host-ram", [&o](const std::string& text) { o.host_ram = parse_bytes(text); },
      "RAM beside the arena for what leaves it, before the disk");
  // Settings of tests.
  app.add_option("--spill-write-rate", o.spill_write_rate)->group("");
  app.add_option("--spill-read-rate", o.spill_read_rate)->group("");
  app.add_option("--spill-fault", o.spill_fault)->group("");
  app.add_option("--length-schedule", o.length_schedule)->group("");
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
  app.add_option("--seed", o.seed, "of initial weights, shuffling and dropout");
  app.add_flag("--shuffle,!--no-shuffle", o.shuffle, "new order of the samples in every epoch");
  app.add_flag("--flip", o.flip, "random horizontal flips of images");
  app.add_option("--crop", o.crop, "random crops from images padded by this many pixels")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--freeze", o.freeze, "parameters that stay as they are (pattern with * and ?)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--bn", flags.bn, "train or frozen")->check(CLI::IsMember({"train", "frozen"}));
  app.add_option("--init", o.init, "weights to start from, a .safetensors file");
  app.add_option("--numerics", flags.numerics, "fixed")->check(CLI::IsMember({"fixed"}));
  app.add_option("--tolerance", flags.tolerance, "exact")->check(CLI::IsMember({"exact"}));
  app.add_option("--compute", o.compute, "of products: f32, or bf16 with sums, weights and updates in f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--loss", o.loss, "of a model that has none of its own; cross-entropy-channels has classes on axis 1")
      ->check(CLI::IsMember({"cross-entropy", "cross-entropy-channels", "mse", "l1", "smooth-l1", "bce", "nll"}));
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  if (!in || !(out << in.rdbuf())) throw UserError(fmt::format("--learnt '{}' cannot be read", path));
  return out.str();
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

}  // namespace

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // the command line over the config file
  add_model_flags(app, flags.options);
  add_optimizer_flags(app, flags);
  add_run_flags(app, flags);
  add_agent_flags(app, flags);
  app.add_option("--config", flags.config, "flags from a file, one NAME = VALUE a line");
}

std::shared_ptr<const Model> open_noted_model(const std::string& name) {
  auto model = open_model(name);
  for (const std::string& note : model->notes()) fmt::print(stderr, "neap: {}: {}\n", name, note);
  return model;
}

void TrainFlags::finish() {
  if (!schedule.empty()) options.schedule = parse_schedule(schedule);
  options.checkpointing.seed = options.seed;
  if (!learnt.empty()) options.checkpointing.learnt = read_text(learnt);
  if (!bn.empty()) options.frozen_batch_norm = bn == "frozen";
}

}  // namespace neap
