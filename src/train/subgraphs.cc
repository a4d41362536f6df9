#include "train/subgraphs.h"

#include <algorithm>
#include <set>

#include "autodiff/optimizer.h"
#include "core/random.h"
#include "graph/initial.h"
#include "graph/op.h"
#include "neap/error.h"
#include "optimize/optimization.h"
#include "optimize/rewrite.h"
#include "train/median.h"
#include "train/setup.h"

namespace neap {
namespace {

// Numbers in [-1, 1), integers below the model's bound.
std::vector<std::byte> stand_in(const Tensor& tensor, std::int64_t bound) {
  std::vector<std::byte> out(static_cast<std::size_t>(tensor.type.bytes()));
  RandomStream random(hash_text(tensor.name));
  const auto below = static_cast<std::uint64_t>(std::max<std::int64_t>(1, bound));
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
    switch (tensor.type.dtype) {
      case DType::kF32: reinterpret_cast<float*>(out.data())[i] = static_cast<float>(2 * random.uniform() - 1); break;
      case DType::kI32:
        reinterpret_cast<std::int32_t*>(out.data())[i] = static_cast<std::int32_t>(random.below(below));
        break;
      case DType::kI64:
        reinterpret_cast<std::int64_t*>(out.data())[i] = static_cast<std::int64_t>(random.below(below));
        break;
      default: return out;
    }
  }
  return out;
}

void fill_state(Stepper& stepper, std::uint64_t seed) {
  const Graph& graph = stepper.graph();
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (is_state(graph.tensors[i].role)) stepper.executor().write({i}, initial_value(graph.tensors[i], seed).data());
  }
}

void fill_inputs(Stepper& stepper, const Model& model, const TrainOptions& options) {
  for (const DataInput& input : stepper.inputs()) {
    const Tensor& tensor = stepper.graph().at(input.id);
    stepper.executor().write(input.id, stand_in(tensor, model.bound(tensor.name)).data());
  }
  if (stepper.hyper()) {
    const Hyper hyper = hyper_at(1, 0, options.optimizer);  // weights stay as they are
    stepper.executor().write(stepper.hyper(), hyper.data());
  }
  if (stepper.random()) {
    const std::array<std::uint64_t, 3> key = {options.seed, 1, 0};
    stepper.executor().write(stepper.random(), key.data());
  }
}

// Milliseconds of each node in one step.
std::vector<double> run_step(Stepper& stepper, const Model& model, const TrainOptions& options) {
  stepper.enter();
  fill_inputs(stepper, model, options);
  std::vector<double> ms;
  stepper.executor().run_sampled(ms);
  std::vector<double> out(stepper.graph().nodes.size());
  for (std::size_t i = 0; i < ms.size(); ++i) {
    const Instruction& in = stepper.plan().instructions[i];
    if (is_call(in.action)) out[in.node.index] += ms[i];
  }
  return out;
}

// What the processor counts while each instruction runs.
class CountHook {
 public:
  explicit CountHook(const HardwareCounters& counters) : counters_(counters) {}
  void before(std::size_t /*i*/) { before_ = counters_.read(); }
  void after(std::size_t /*i*/) { counted.push_back(counters_.read() - before_); }

  std::vector<CounterReading> counted;

 private:
  const HardwareCounters& counters_;
  CounterReading before_;
};

// Of each node in one step; empty where the machine has no counters.
std::vector<CounterReading> count_step(Stepper& stepper, const Model& model, const TrainOptions& options,
                                       const HardwareCounters* counters) {
  if (counters == nullptr) return {};
  stepper.enter();
  fill_inputs(stepper, model, options);
  CountHook hook(*counters);
  stepper.executor().run_with(hook);
  std::vector<CounterReading> out(stepper.graph().nodes.size());
  for (std::size_t i = 0; i < hook.counted.size(); ++i) {
    const Instruction& in = stepper.plan().instructions[i];
    if (is_call(in.action)) out[in.node.index] += hook.counted[i];
  }
  return out;
}

// The caches that all threads have together.
Caches caches_of(const Ceilings& ceilings) {
  Caches out;
  for (const CacheCeiling& cache : ceilings.caches) {
    (cache.name == "L1" ? out.l1_bytes : cache.name == "L2" ? out.l2_bytes : out.l3_bytes) = cache.bytes;
  }
  return out;
}

// The same step without optimizations: kernels and a plan of its own in the same arena, on the same state.
std::unique_ptr<Stepper> make_plain(const Setup& setup, const TrainOptions& options, Stepper& optimized, Arena& arena) {
  TrainOptions off = options;
  off.optimize = "off";
  auto program = prepare_shape(setup, off, setup.shape);
  if (program->numerics_id == setup.program->numerics_id) return nullptr;
  StateLayout layout = shared_layout(setup.program->graph, optimized.plan(), program->graph);
  Plan plan = std::get<Plan>(make_plan(program->graph, program->costs, {}, kNoBudget, &layout));
  arena.resize(std::max(arena.bytes(), plan.peak_bytes));
  return std::make_unique<Stepper>(setup.shape, std::move(program), std::move(plan), std::move(layout), *setup.device,
                                   arena, nullptr);
}

// What was seen of each node.
struct NodeSamples {
  std::vector<double> ms;
  std::vector<double> plain_ms;
  std::vector<MemoryTraffic> traffic;
  std::vector<CounterReading> counted;  // empty: not
};

class Rows {
 public:
  Rows(const Graph& graph, const SubgraphTree& tree, NodeSamples samples)
      : graph_(graph), tree_(tree), samples_(std::move(samples)) {}

  void add(int at) {
    const Subgraph& piece = tree_.all()[static_cast<std::size_t>(at)];
    SubgraphRow row{.depth = piece.depth,
                    .name = tree_.label(piece),
                    .nodes = piece.nodes(),
                    .share = 0,
                    .bound = piece.is_compute_bound() ? "compute" : "memory",
                    .strategies = strategies_in(graph_, piece.first, piece.last),
                    .memory = memory_of(piece),
                    .is_leaf = piece.is_leaf()};
    for (std::uint32_t i = piece.first; i < piece.last; ++i) {
      row.ms += samples_.ms[i];
      row.gained_ms += samples_.plain_ms[i] - samples_.ms[i];
    }
    row.share = row.ms > 0 ? piece.best_ms / row.ms : 1;
    rows.push_back(std::move(row));
    if (piece.is_leaf()) return;
    add(piece.left);
    add(piece.right);
  }

  std::vector<SubgraphRow> rows;

 private:
  MemoryActivity memory_of(const Subgraph& piece) const {
    MemoryTraffic modelled;
    CounterReading counted;
    for (std::uint32_t i = piece.first; i < piece.last; ++i) {
      modelled += samples_.traffic[i];
      if (!samples_.counted.empty()) counted += samples_.counted[i];
    }
    return activity_of(modelled, samples_.counted.empty() ? std::nullopt : std::optional(counted));
  }

  const Graph& graph_;
  const SubgraphTree& tree_;
  NodeSamples samples_;
};

// A ceiling that a call exceeds was taken while something else had the cores.
void raise_to(Ceilings& ceilings, const Graph& graph, const std::vector<double>& ms) {
  constexpr double kSureMs = 0.05;  // shorter calls say little
  for (std::size_t i = 0; i < ms.size(); ++i) {
    if (ms[i] < kSureMs) continue;
    ceilings.gflops = std::max(ceilings.gflops, flops_of(call_of(graph, graph.nodes[i])) * 1e-6 / ms[i]);
  }
}

}  // namespace

Roofline roofline_of(const Ceilings& c) {
  Roofline out{.flops_per_ms = c.gflops * 1e6, .bytes_per_ms = c.bytes_per_second * 1e-3, .caches = {}};
  for (const CacheCeiling& cache : c.caches) {
    out.caches.push_back({static_cast<double>(cache.bytes), cache.bytes_per_second * 1e-3});
  }
  return out;
}

std::string strategies_in(const Graph& graph, std::uint32_t first, std::uint32_t last) {
  std::string out;
  for (const Optimization& each : optimizations()) {
    const bool is_here = std::any_of(graph.nodes.begin() + first, graph.nodes.begin() + last,
                                     [&](const Node& node) { return node.op->name == each.makes; });
    if (is_here) out += (out.empty() ? "" : ",") + std::string(each.name);
  }
  return out;
}

SubgraphProfile profile_subgraphs(std::shared_ptr<const Model> model, const TrainOptions& options,
                                  const SubgraphOptions& subgraphs, int steps) {
  TrainOptions all = options;  // every tensor is kept: times of nodes, not of a plan
  all.policy = "store-all";
  all.budget.clear();
  all.budget_schedule.clear();
  const Setup setup = make_setup(std::move(model), all);
  const Graph& graph = setup.program->graph;
  check(subgraphs, graph);
  std::string why;
  const auto counters = HardwareCounters::open(why);
  SubgraphProfile out{.ceilings = ceilings_of(setup.device->kind()),
                      .clock_mhz = core_clock_mhz(counters.get()),
                      .rows = {},
                      .log = {}};
  const auto arena = setup.device->make_arena(2 * setup.plan.peak_bytes, false);
  arena->resize(setup.plan.peak_bytes);
  Stepper stepper(setup.shape, setup.program, setup.plan, layout_of(setup.plan, graph), *setup.device, *arena, nullptr);
  const auto plain = make_plain(setup, all, stepper, *arena);
  const std::vector<NodeId> here = plain ? counterparts(plain->graph(), graph) : std::vector<NodeId>{};
  fill_state(stepper, all.seed);
  run_step(stepper, *setup.spec.model, all);  // pays for cold memory
  raise_to(out.ceilings, graph, run_step(stepper, *setup.spec.model, all));
  SubgraphTree tree(graph, roofline_of(out.ceilings), subgraphs);
  std::vector<std::vector<double>> ms;
  std::vector<std::vector<double>> plain_ms;
  for (int i = 0; i < steps; ++i) {
    ms.push_back(run_step(stepper, *setup.spec.model, all));
    plain_ms.push_back(ms.back());
    if (plain) {
      plain_ms.back().assign(graph.nodes.size(), 0);
      const std::vector<double> each = run_step(*plain, *setup.spec.model, all);
      for (std::size_t k = 0; k < each.size(); ++k) plain_ms.back()[here[k].index] += each[k];
    }
    for (std::string& line : tree.observe(ms.back())) out.log.push_back(std::move(line));
  }
  Rows rows(graph, tree,
            {.ms = medians(ms),
             .plain_ms = medians(plain_ms),
             .traffic = modelled_traffic(graph, caches_of(out.ceilings)),
             .counted = count_step(stepper, *setup.spec.model, all, counters.get())});
  rows.add(0);
  out.rows = std::move(rows.rows);
  return out;
}

}  // namespace neap
