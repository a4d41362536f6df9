#include "policy/adaptive.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "graph/op.h"
#include "observe/ceilings.h"
#include "plan/simulate.h"
#include "policy/joint.h"
#include "policy/search.h"

namespace neap {
namespace {

using q_learning::Chain;
using q_learning::ChainLayer;
using q_learning::Choice;
using q_learning::Choices;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kWork = 200'000;  // of the search that fits the agent's choices to the budget

bool is_kept(const Recompute& r, TensorId id) { return r.is_used(id) && r.store_all[r.first_wait(id)] == kThrough; }

ChainLayer layer_of(const Recompute& r, const Layer& layer, std::int64_t input_bytes) {
  const Graph& graph = r.problem.graph;
  ChainLayer out{.input_bytes = static_cast<double>(input_bytes), .ms = layer.ms};
  double traffic = 0;
  for (const NodeId id : layer.nodes) {
    const Node& node = graph.at(id);
    traffic += traffic_of(call_of(graph, node));
    for (const TensorId output : node.outputs) {
      if (!is_kept(r, output)) continue;
      const auto bytes = static_cast<double>(r.bytes_of(output));
      const bool is_boundary = std::find(layer.boundary.begin(), layer.boundary.end(), output) != layer.boundary.end();
      if (is_boundary) continue;  // the next layer's input
      out.inside_bytes += bytes;
      if (!node.op->cheap) continue;
      out.cheap_bytes += bytes;
      out.cheap_ms += r.ms_of(id);
    }
  }
  const double guessed = r.problem.costs.bytes_per_ms;
  const double ceiling = guessed > 0 ? guessed : measure_ceilings().bytes_per_second * 1e-3;
  out.bandwidth = std::min(1.0, traffic / std::max(layer.ms, 1e-6) / ceiling);
  return out;
}

// A problem as the agent sees it.
struct View {
  View(const PlanningProblem& problem, std::int64_t limit)
      : r(problem), layers(find_layers(r)), budget(limit), chain(chain_of(r, layers, limit)) {}

  // Per node: what computing it again takes of the machine's bandwidth.
  std::vector<double> bandwidth() const {
    std::vector<double> out(r.problem.graph.nodes.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (const NodeId id : layers[i].nodes) out[id.index] = chain.layers[i].bandwidth;
    }
    return out;
  }

  Recompute r;
  std::vector<Layer> layers;
  std::int64_t budget;
  Chain chain;
};

// What a plan earns, in the units of the chain's rewards: its time, bytes and bandwidth instead of those of choices.
double reward_of(const q_learning::Reward& reward, const View& view, const Plan& plan) {
  const PlanningProblem& p = view.r.problem;
  const Chain& chain = view.chain;
  const double beside = static_cast<double>(view.budget) - chain.budget;  // what is no activation
  double out = reward.time * simulate(plan, p.costs, p.link).ms / chain.total_ms() +
               reward.memory * (static_cast<double>(plan.peak_bytes) - beside) / chain.total_bytes();
  if (reward.bandwidth > 0) {
    const std::vector<double> bandwidth = view.bandwidth();
    for (const Instruction& in : plan.instructions) {
      if (in.action != Action::kRecompute) continue;
      out += reward.bandwidth * bandwidth[in.node.index] * view.r.ms_of(in.node) / chain.total_ms();
    }
  }
  return -out;
}

// The exact plan where time is not all: calls dearer by the price of their bandwidth, and smaller budgets tried, since
// bytes have a price too. None: nothing fits.
std::optional<Plan> exact_plan(const q_learning::Reward& reward, const View& view) {
  const PlanningProblem& p = view.r.problem;
  Costs priced = p.costs;
  const std::vector<double> bandwidth = view.bandwidth();
  for (std::size_t i = 0; i < priced.ms.size(); ++i) {
    priced.ms[i] *= 1 + reward.bandwidth / std::max(reward.time, 1e-3) * bandwidth[i];
  }
  const PlanningProblem problem{p.graph, priced, p.link, p.layout, without_choice(p).levels};
  std::optional<Plan> best = oracle_policy().within(problem, view.budget);
  if (!best || reward.memory == 0) return best;
  double most = reward_of(reward, view, *best);
  const std::int64_t room = best->peak_bytes - best->state_bytes;
  for (const int percent : {85, 70, 55, 40, 25}) {
    std::optional<Plan> plan = oracle_policy().within(problem, best->state_bytes + room * percent / 100);
    if (!plan) break;
    const double earns = reward_of(reward, view, *plan);
    if (earns <= most) continue;
    most = earns;
    best = std::move(plan);
  }
  return best;
}

void drop_cheap(const Recompute& r, const Layer& layer, Retention& retention) {
  const Position begin = backward_begins(r, std::span(&layer, 1));
  for (const NodeId id : layer.nodes) {
    const Node& node = r.problem.graph.at(id);
    if (!node.op->cheap) continue;
    for (const TensorId output : node.outputs) {
      if (is_kept(r, output)) retention[r.first_wait(output)] = begin;
    }
  }
}

}  // namespace

Chain chain_of(const Recompute& r, std::span<const Layer> layers, std::int64_t budget) {
  Chain out;
  std::int64_t input_bytes = 0;
  for (const Layer& layer : layers) {
    out.layers.push_back(layer_of(r, layer, input_bytes));
    input_bytes = layer.boundary_bytes;
  }
  // What the plan needs beside the activations that it keeps: state, gradients, workspaces at the fullest moment.
  const auto stored = static_cast<double>(footprint_of(r, r.store_all).bytes);
  out.budget = static_cast<double>(budget) - (stored - out.total_bytes());
  return out;
}

Retention retention_of(const Recompute& r, std::span<const Layer> layers, const Choices& choices) {
  Granularities granularities(layers.size(), kStoreAll);
  std::vector<std::size_t> cheap;
  std::size_t at = 0;
  for (const Choice& choice : choices) {
    if (choice.kind == Choice::Kind::kCheap) cheap.push_back(at);
    if (choice.kind != Choice::Kind::kEvery) {
      ++at;
      continue;
    }
    const std::size_t end = std::min(layers.size(), at + static_cast<std::size_t>(choice.every));
    for (; at < end; ++at) granularities[at] = choice.every;
  }
  Retention out = retention_of(r, layers, granularities);
  for (const std::size_t i : cheap) drop_cheap(r, layers[i], out);
  return out;
}

AdaptivePolicy::AdaptivePolicy(q_learning::AgentOptions options, const std::string& learnt, bool may_spill)
    : options_(std::move(options)), given_(learnt), agent_(options_), may_spill_(may_spill) {
  if (learnt.empty()) return;
  std::istringstream in(learnt);
  agent_.load(in);
}

std::shared_ptr<const Policy> AdaptivePolicy::untaught() const {
  return std::make_shared<AdaptivePolicy>(options_, given_, may_spill_);
}

std::string AdaptivePolicy::learnt() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  agent_.save(out);
  return out.str();
}

Plan AdaptivePolicy::smallest(const PlanningProblem& problem) const { return joint_smallest(problem, may_spill_); }

std::optional<Plan> AdaptivePolicy::first(const PlanningProblem& problem, std::int64_t budget) const {
  const Recompute r(problem);
  const std::vector<Layer> layers = find_layers(r);
  Plan plan = plan_of(r, retention_of(r, layers, Granularities(layers.size(), 1)));
  return plan.peak_bytes <= budget ? std::optional(std::move(plan)) : within(problem, budget);
}

std::optional<AdaptivePolicy::Proposal> AdaptivePolicy::propose(const Recompute& r, std::span<const Layer> layers,
                                                                const q_learning::Chain& chain,
                                                                std::int64_t budget) const {
  if (!run_.empty()) {  // times are new: what the choices that run have cost
    std::vector<double> rewards;
    std::size_t at = 0;
    for (const Choice& choice : run_) {
      const q_learning::Effect e = effect_of(chain, at, choice);
      rewards.push_back(reward_of(agent_.reward(), chain, e));
      at += e.layers;
    }
    if (at == chain.layers.size()) agent_.reinforce(chain, run_, rewards);
  }
  agent_.learn(chain);
  const std::optional<Choices> choices = agent_.propose(chain, true);
  if (!choices) return std::nullopt;
  // The chain is a simplification: the plan itself says what the choices take, and is brought within the budget.
  Search search(r, layers, kWork);
  Candidate found = search.judge(retention_of(r, layers, *choices), budget);
  if (found.footprint.bytes > budget) found = search.drop_until(std::move(found), budget);
  if (found.footprint.bytes > budget) return std::nullopt;
  // Where bytes cost nothing, all that fits is kept.
  if (agent_.reward().memory == 0) found = search.keep_while(std::move(found), budget);
  Plan plan = plan_of(r, found.retention);
  if (plan.peak_bytes > budget) return std::nullopt;
  return Proposal{.plan = std::move(plan), .choices = *choices};
}

std::optional<Plan> AdaptivePolicy::within(const PlanningProblem& problem, std::int64_t budget) const {
  const std::lock_guard lock(mutex_);
  std::vector<Plan> plans = best_of_each_kind(problem, budget);
  return plans.empty() ? std::nullopt : std::optional(std::move(plans.front()));
}

namespace {

// A link that may be so much faster than it was is worth a race.
constexpr double kLuck = 2;
// What transfers take from calls beside them, and calls from transfers, the simulator guesses: so far it may be wrong.
constexpr double kMayBeWrong = 1.1;
constexpr double kFarBehind = 1.2;  // and no further

PlanningProblem with_luck(PlanningProblem p) {
  p.link.write_bytes_per_ms *= kLuck;
  p.link.read_bytes_per_ms *= kLuck;
  return p;
}

double ms_of(const Plan& plan, const PlanningProblem& p) { return simulate(plan, p.costs, p.link).ms; }

// Transfers alone. None: they do not suffice, or even on a faster link they would take far longer than `best`.
std::optional<Plan> only_spilling(const PlanningProblem& problem, std::int64_t budget, const Plan& best) {
  const PlanningProblem exact = without_choice(problem);
  const PlanningProblem lucky = with_luck(exact);
  std::optional<TimedPlan> found = SpillSearch(exact, store_all(problem.graph)).fastest(budget);
  const bool is_rival = found && ms_of(found->plan, lucky) < kMayBeWrong * ms_of(best, lucky);
  return is_rival ? std::optional(std::move(found->plan)) : std::nullopt;
}

// Where nothing leaves any more, nobody learns that the link is faster than in the few steps that were measured: what
// would then be the fastest. None: nothing would.
std::optional<Plan> with_faster_link(const PlanningProblem& problem, std::int64_t budget, const Plan& best) {
  if (!best.slots.empty()) return std::nullopt;
  const PlanningProblem lucky = with_luck(problem);
  std::optional<TimedPlan> found = joint_within(lucky, budget, ms_of(best, lucky), true);
  return found ? std::optional(std::move(found->plan)) : std::nullopt;
}

}  // namespace

std::vector<Plan> AdaptivePolicy::candidates(const PlanningProblem& problem, std::int64_t budget) const {
  const std::lock_guard lock(mutex_);
  std::vector<Plan> out = best_of_each_kind(problem, budget);
  if (!may_spill_ || agent_.reward().memory > 0 || out.empty()) return out;
  if (out.size() > 1 && ms_of(out.back(), problem) > kFarBehind * ms_of(out.front(), problem)) out.pop_back();
  std::optional<Plan> rivals[] = {only_spilling(problem, budget, out.front()),
                                  with_faster_link(problem, budget, out.front())};
  for (std::optional<Plan>& rival : rivals) {
    if (rival) out.push_back(std::move(*rival));
  }
  return out;
}

std::vector<Plan> AdaptivePolicy::best_of_each_kind(const PlanningProblem& problem, std::int64_t budget) const {
  std::vector<Plan> out;
  if (std::optional<Plan> recomputes = recomputing(problem, budget)) out.push_back(std::move(*recomputes));
  if (!has_more(problem) || agent_.reward().memory > 0) return out;
  const double ms = out.empty() ? kNever : simulate(out.front(), problem.costs, problem.link).ms;
  if (std::optional<TimedPlan> both = joint_within(problem, budget, ms, may_spill_)) {
    run_.clear();
    out.insert(out.begin(), std::move(both->plan));
  }
  return out;
}

std::optional<Plan> AdaptivePolicy::recomputing(const PlanningProblem& problem, std::int64_t budget) const {
  const View view(problem, budget);
  std::optional<Plan> exact = exact_plan(agent_.reward(), view);
  if (!exact) return exact;
  std::optional<Proposal> proposal = propose(view.r, view.layers, view.chain, budget);
  run_.clear();
  const auto earns = [&](const Plan& plan) { return reward_of(agent_.reward(), view, plan); };
  if (!proposal || earns(proposal->plan) <= earns(*exact)) return exact;
  run_ = std::move(proposal->choices);
  return std::move(proposal->plan);
}

}  // namespace neap
