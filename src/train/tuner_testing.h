// A small run whose steps tests of the tuner take themselves, and whose times they make up.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "graph/initial.h"
#include "graph/op.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "train/tuner.h"

namespace neap {

// Two layers with a chain of elementwise ops between them, long enough for fusion.
class Chain final : public Model {
 public:
  std::string name() const override { return "chain"; }
  std::int64_t batch() const override { return 64; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, 8});
    const Value target = g.input("target", DType::kF32, {request.batch, 4});
    const Value a = layer_norm(g, "norm", linear(g, "a", x, 2048));
    const Value b = linear(g, "b", g("mul", {g("tanh", {a}), g("sigmoid", {a})}), 4);
    const Value d = g("sub", {b, target});
    g.output("loss", g("reduce_mean", {g("square", {d})}, {{"keepdims", std::int64_t{0}}}));
  }
};

// Trials at will; two pieces, forward and backward, which stay as they are, so that no cut goes through a chain.
inline const TuningOptions kFree{.subgraphs = {.initial_granularity = 1, .performance_threshold = 1e-9},
                                 .trial_share = 1};

// Milliseconds of a node in a step.
using FakeClock = std::function<double(const Graph&, const Node&)>;

inline bool is_fused(const Node& node) { return node.op->name == "fused"; }

// Far more than any real one takes.
inline FakeClock fused_takes(double share) {
  return [share](const Graph&, const Node& node) { return is_fused(node) ? 1000 * share : 1000; };
}

// One that grows only as far as others leave memory for it, as on a GPU.
class SharedArena final : public Arena {
 public:
  explicit SharedArena(std::unique_ptr<Arena> arena) : left(arena->capacity()), arena_(std::move(arena)) {}
  std::byte* base() override { return arena_->base(); }
  std::int64_t bytes() const override { return arena_->bytes(); }
  std::int64_t capacity() const override { return arena_->capacity(); }
  std::int64_t resident_bytes() const override { return arena_->resident_bytes(); }
  void resize(std::int64_t bytes) override {
    if (bytes > left) throw DeviceError("no memory is left");
    arena_->resize(bytes);
  }

  std::int64_t left;

 private:
  std::unique_ptr<Arena> arena_;
};

class TunedNet {
 public:
  // `base`: what was done to the step that runs at first. `made_up_ms`: TunerOptions.
  explicit TunedNet(std::vector<const Optimization*> library, TuningOptions tuning = kFree, std::int64_t steps = 1000,
                    const Optimization* base = nullptr, std::function<double(Effort)> made_up_ms = {},
                    const std::string& device = "cpu") {
    options_.device = device;
    options_.optimize = "off";
    options_.threads = 1;
    setup_ = make_setup(std::make_shared<Chain>(), options_);
    arena_ = std::make_unique<SharedArena>(setup_.device->make_arena(2 * setup_.plan.peak_bytes, false));
    settled_ = setup_.program->graph;
    if (base != nullptr) {
      setup_.program = std::make_shared<Program>(prepare(base->apply(settled_, {}), *setup_.device));
      setup_.program->costs.ms.assign(setup_.program->graph.nodes.size(), 1);
      setup_.plan = plan_within(store_all_policy(), {.graph = setup_.program->graph, .costs = setup_.program->costs},
                                std::nullopt);
    }
    arena_->resize(setup_.plan.peak_bytes);
    const Graph& graph = setup_.program->graph;
    stepper_ = std::make_unique<Stepper>(setup_.shape, setup_.program, setup_.plan, layout_of(setup_.plan, graph),
                                         *setup_.device, *arena_, nullptr);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (is_state(graph.tensors[i].role)) {
        stepper_->executor().write({i}, initial_value(graph.tensors[i], 0).data());
      }
    }
    tuner = std::make_unique<Tuner>(TunedRun{.device = *setup_.device,
                                             .arena = *arena_,
                                             .settled = [this] { return settled_; },
                                             .base = *stepper_,
                                             .put_in = [](Stepper& s) { put_in(s); }},
                                    TunerOptions{.library = std::move(library),
                                                 .tuning = tuning,
                                                 .steps = steps,
                                                 .is_synchronous = true,
                                                 .made_up_ms = std::move(made_up_ms)});
  }

  void step(const FakeClock& clock) {
    Stepper& stepper = tuner->before(std::nullopt);
    if (before_step) before_step(stepper);
    put_in(stepper);
    if (tuner->wants_notes()) {
      tuner->run_noted();
    } else if (!is_dry) {
      stepper.executor().run();
    }
    std::vector<double> timed;
    for (const Instruction& in : stepper.plan().instructions) {
      timed.push_back(clock(stepper.graph(), stepper.graph().at(in.node)));
    }
    const double ms = std::accumulate(timed.begin(), timed.end(), 0.0);
    tuner->after(ms, tuner->wants_times() ? timed : std::vector<double>{});
    for (std::string& line : tuner->take_log()) log.push_back(std::move(line));
    if (std::string note = tuner->take_note(); !note.empty()) notes.push_back(std::move(note));
  }
  void steps(int count, const FakeClock& clock = fused_takes(1)) {
    for (int i = 0; i < count; ++i) step(clock);
  }

  // All state, after the steps so far.
  std::vector<std::byte> state() const {
    std::vector<std::byte> out;
    const Graph& graph = stepper_->graph();
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (!is_state(graph.tensors[i].role)) continue;
      std::vector<std::byte> each(static_cast<std::size_t>(graph.tensors[i].type.bytes()));
      stepper_->executor().read({i}, each.data());
      out.insert(out.end(), each.begin(), each.end());
    }
    return out;
  }
  bool runs_fused() {
    const auto& nodes = tuner->current().graph().nodes;
    return std::any_of(nodes.begin(), nodes.end(), is_fused);
  }
  Stepper& base() { return *stepper_; }
  SharedArena& arena() { return *arena_; }
  std::ptrdiff_t says(std::string_view words) const {
    return std::count_if(log.begin(), log.end(),
                         [&](const auto& line) { return line.find(words) != std::string::npos; });
  }
  std::string all_said() const {
    std::string out;
    for (const std::string& line : log) out += line + "\n";
    return out;
  }

  bool is_dry = false;  // only rehearsals compute something
  std::function<void(Stepper&)> before_step;
  std::unique_ptr<Tuner> tuner;
  std::vector<std::string> log;
  std::vector<std::string> notes;

 private:
  static void put_in(Stepper& s) {
    s.enter();
    for (const DataInput& input : s.inputs()) {
      std::vector<float> data(input.bytes / sizeof(float));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 13) / 13 - 0.4F;
      s.executor().write(input.id, data.data());
    }
    const Hyper hyper = hyper_at(1, 0.01, {});
    s.executor().write(s.hyper(), hyper.data());
  }

  TrainOptions options_;
  Setup setup_;
  Graph settled_;
  std::unique_ptr<SharedArena> arena_;
  std::unique_ptr<Stepper> stepper_;
};

// It takes one activation for another.
inline Graph wrongly(const Graph& graph, const Where& where) {
  Graph out = graph;
  for (std::size_t i = 0; i < out.nodes.size(); ++i) {
    const bool is_here = out.nodes[i].op->name == "tanh" && (where.empty() || where[i] >= 0);
    if (is_here) out.nodes[i].op = &op_named("abs");
  }
  return out;
}
inline constexpr Optimization kWrong{.name = "wrong", .what = "", .makes = "abs", .is_bitwise = true, .apply = wrongly};

}  // namespace neap
