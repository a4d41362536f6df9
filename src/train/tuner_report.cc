// Which runs are tuned, and what is said of it.
#include <fmt/format.h>

#include <algorithm>

#include "device/geared_kernel.h"
#include "graph/op.h"
#include "neap/error.h"
#include "train/rounded.h"
#include "train/tuner.h"

namespace neap {
namespace {

void check(const TuningOptions& o, const Graph& graph) {
  neap::check(o.subgraphs, graph);
  dqn::check({.training_epochs = o.rl_training_epochs});
  if (!(o.trial_share >= 0 && o.trial_share <= 1)) {
    throw UserError(fmt::format("trial_share {} must lie in [0, 1]", o.trial_share));
  }
}

// One graph runs all the time, once a step; everything is stored, nothing is carried from batch to batch, and nobody
// writes down or repeats what each step did. Recurrent layers have an agent of their own, which learns from steps of
// one kind.
bool is_tuned(const TrainOptions& o, const Setup& setup) {
  const bool has_one_shape = !has_changing_shapes(o);
  const bool is_kept = o.decisions.empty() && o.replay.empty() && !o.trace;
  const bool is_one_run = setup.spec.parts == 1 && !o.carry_state;
  const bool stores_all = !setup.levels && o.budget_schedule.empty() && setup.plan.peak_bytes == setup.store_all_bytes;
  const auto& kernels = setup.program->kernels;
  const bool has_gears = std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return dynamic_cast<const GearedKernel*>(kernel.get()) != nullptr;
  });
  return o.optimize == "adaptive" && o.compute != "bf16" && o.device != "null" && o.reservation.empty() &&
         !o.own_kernels && has_one_shape && is_one_run && is_kept && stores_all && !has_gears;
}

// Fixed numerics: nothing that the clock decides changes a bit.
bool is_choice(const Optimization& each, const TrainOptions& options) {
  return !each.is_settled && (each.keeps_bits(options.device == "cuda") || options.numerics == "free");
}

}  // namespace

std::optional<TunerOptions> tuner_options(const TrainOptions& options, const Setup& setup) {
  check(options.tuning, setup.program->graph);
  constexpr double kLeast = 2;  // steps that the first trial takes
  const bool is_long = options.tuning.trial_share * static_cast<double>(options.steps) >= kLeast;
  if (!is_long || !is_tuned(options, setup)) return std::nullopt;
  TunerOptions out{.library = {},
                   .tuning = options.tuning,
                   .steps = options.steps,
                   .is_synchronous = options.synchronous_planning || options.device == "cuda",
                   .seed = options.seed};
  const auto& nodes = setup.program->graph.nodes;
  const bool is_cuda = options.device == "cuda";
  for (const Optimization* each : chosen_optimizations(options.optimize, is_cuda)) {
    const bool is_here =
        std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.op->name == each->makes; });
    if (is_choice(*each, options) && is_here) out.library.push_back(each);
  }
  if (out.library.empty()) return std::nullopt;
  return out;
}

std::string settled_passes(std::string_view optimize, const std::vector<const Optimization*>& library, bool is_cuda) {
  std::string out;
  for (const Optimization* each : chosen_optimizations(optimize, is_cuda)) {
    const bool is_choice = std::find(library.begin(), library.end(), each) != library.end();
    if (!is_choice) out += fmt::format("{}{}", out.empty() ? "" : ",", each->name);
  }
  return out.empty() ? "off" : out;
}

// "fuse in 3 of 8 subgraphs, nothing in 5"
std::string Tuner::text_of(const Actions& actions) const {
  std::map<int, int> count;
  for (const int action : actions) ++count[action];
  std::string out;
  for (const auto& [action, pieces] : count) {
    out += fmt::format("{}{} in {}", out.empty() ? "" : ", ", pieces_->way(action).name, pieces);
  }
  return out + fmt::format(" of {} subgraphs", actions.size());
}

// What makes the variant, however it came about: which nodes are a piece, and what is done to it.
std::string Tuner::key_of(const Actions& actions) const {
  std::string out;
  for (std::size_t p = 0; p < actions.size(); ++p) out += fmt::format("{}:{} ", pieces_->piece(p).last, actions[p]);
  return out;
}

std::int64_t Tuner::bytes() const {
  std::int64_t out = agent_.bytes() + times_.bytes() + own_bytes(base_plan_) + own_bytes(candidate_.plan);
  for (const Stepper* each : {trial_.get(), retired_.get()}) out += each != nullptr ? own_bytes(each->plan()) : 0;
  return out + static_cast<std::int64_t>(node_ms_.size() * sizeof(double));
}

TuningReport Tuner::report() const {
  TuningReport out{.trials = trials_,
                   .adopted = adoptions_,
                   .changes = changes_,
                   .drifts = drifts_,
                   .overruled = overruled_,
                   .spent_ms = spent_ms_,
                   .spent_share = elapsed_ms_ > 0 ? spent_ms_ / elapsed_ms_ : 0,
                   .rejected = {},
                   .pieces = {},
                   .loops = {}};
  for (const Optimization* each : options_.library) {
    if (rejected_.contains(each)) out.rejected.emplace_back(each->name);
  }
  for (std::size_t p = 0; pieces_ && p < pieces_->size(); ++p) {
    const double ms = pieces_->ms(p, node_ms_);
    const dqn::State state = pieces_->state(p, ms, current_actions_[p]);
    out.pieces.push_back({.name = pieces_->label(p),
                          .strategy = pieces_->way(current_actions_[p]).name,
                          .bound = state.is_compute_bound ? "compute" : "memory",
                          .ms = ms,
                          .roofline = state.share,
                          .bandwidth = state.bandwidth,
                          .transferred_bytes = pieces_->transferred_bytes(p)});
  }
  return out;
}

}  // namespace neap
