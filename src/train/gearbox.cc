#include "train/gearbox.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <ctime>

#include "graph/op.h"
#include "policy/ppo/policy_file.h"

namespace neap {
namespace {

// More than a kilobyte each: what decides should take a hundredth of the budget at most.
constexpr std::size_t kMostMoments = 128;

// The agent may take this share of the time of training, and so much at once at the beginning, for choices. A lesson
// waits until the share has come to what it takes.
constexpr double kShare = 0.0008;
constexpr double kFirstCreditMs = 20;
constexpr std::int64_t kLessonEvery = 16;  // steps

double process_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

CellKind kind_of(const Node& node) {
  if (node.op->name.starts_with("lstm")) return CellKind::kLstm;
  return node.op->name.starts_with("gru") ? CellKind::kGru : CellKind::kTanh;
}

// Bytes that a time step of the layer goes through, weights included: what competes for the cache.
double working_set(const ppo::LayerState& s) {
  const double blocks = s.kind == CellKind::kLstm ? 4 : s.kind == CellKind::kGru ? 3 : 1;
  const auto hidden = static_cast<double>(s.hidden);
  const double weights = blocks * hidden * (hidden + static_cast<double>(s.input));
  return 4 * (weights + static_cast<double>(s.batch) * (blocks + 3) * hidden);
}

// Whether pieces as long as the gear makes them fit into the workspace that is booked.
bool fits(const Gear& gear, std::int64_t chunk, std::int64_t unroll) {
  if (unroll == 0 || gear.kind == Gear::Kind::kRolled) return true;
  const std::int64_t piece = gear.steps == 0 ? chunk : std::min<std::int64_t>(gear.steps, chunk);
  return piece <= unroll;
}

bool has_caches() { return find_caches().l2_bytes > 0 || find_caches().l3_bytes > 0; }

}  // namespace

Gearbox::Gearbox(const RecurrentTraining& options, std::uint64_t seed, bool learns)
    : options_(options), learns_(learns), credit_ms_(kFirstCreditMs) {
  if (options.gear != "adaptive") {
    actions_ = ppo::actions_of({{parse_gear(options.gear)}});
    return;
  }
  ppo::AgentOptions o{.gears = parse_gears(options.offered),
                      .ppo = {.epsilon = options.epsilon},
                      .dwell = options.dwell,
                      .most_switches = options.most_switches,
                      .seed = seed,
                      .most_moments = kMostMoments};
  // What always fits.
  if (std::find(o.gears.begin(), o.gears.end(), Gear::rolled()) == o.gears.end()) o.gears.push_back(Gear::rolled());
  ppo::check(o);
  actions_ = ppo::actions_of(o.gears);
  const ppo::Learnt learnt = ppo::usable_learnt(options.learnt, note_);
  agent_ = std::make_unique<ppo::Agent>(std::move(o));
  agent_->network().load(learnt.weights);
}

void Gearbox::set_limits(Layer& layer, std::int64_t unroll) {
  ppo::LayerState& s = layer.state;
  s.allowed.assign(actions_.size(), false);
  s.measured_us.assign(actions_.size(), 0);
  s.visits.assign(actions_.size(), 0);
  for (std::size_t a = 0; a < actions_.size(); ++a) {
    s.allowed[a] = actions_[a].keeps_gates == layer.keeps_gates && (!agent_ || fits(actions_[a].gear, s.chunk, unroll));
  }
  const auto first = std::find(s.allowed.begin(), s.allowed.end(), true) - s.allowed.begin();
  layer.current = agent_ ? agent_->best(actions_.size(), s) : static_cast<std::size_t>(first);
}

// Layers, and their directions, are known by the scope that their chunks were made in.
std::size_t Gearbox::layer_for(const Program& program, const Node& node) {
  const auto known = std::find_if(layers_.begin(), layers_.end(), [&](const Layer& l) { return l.name == node.layer; });
  if (known != layers_.end() || node.op->name.ends_with("_grad")) {
    return static_cast<std::size_t>(known - layers_.begin());
  }
  Layer layer{.name = node.layer};
  const Shape& x = program.graph.at(node.inputs[0]).type.shape;
  layer.keeps_gates = node.attrs.text("gates", "keep") == "keep" || kind_of(node) == CellKind::kTanh;
  layer.state.kind = kind_of(node);
  layer.state.batch = x.size(1);
  layer.state.input = x.size(2);
  layer.state.chunk = x.size(0);
  layer.state.hidden = program.graph.at(node.outputs[0]).type.shape.size(2);
  set_limits(layer, node.attrs.integer("unroll", 0));
  layers_.push_back(std::move(layer));
  return layers_.size() - 1;
}

void Gearbox::add_call(const Executor& executor, Tick tick) {
  const Instruction& in = executor.plan().instructions[tick];
  const Program& program = executor.program();
  const Node& node = program.graph.at(in.node);
  const bool is_backward = node.op->name.ends_with("_grad");
  Call call{.layer = layer_for(program, node), .is_backward = is_backward};
  if (call.layer >= layers_.size()) return calls_.push_back(call);
  Layer& layer = layers_[call.layer];
  layer.workspace_bytes = std::max(layer.workspace_bytes, program.costs.workspace[in.node.index]);
  const std::int64_t start = node.attrs.integer("start", 0);
  const auto at =
      std::find_if(layer.chunks.begin(), layer.chunks.end(), [&](const Chunk& c) { return c.start == start; });
  call.chunk = static_cast<std::size_t>(at - layer.chunks.begin());
  call.is_again = !is_backward && at != layer.chunks.end();
  if (at == layer.chunks.end()) {
    const std::int64_t steps = program.graph.at(node.outputs[0]).type.shape.size(0);
    const std::int64_t wide = layer.keeps_gates && layer.state.kind != CellKind::kTanh ? 4 : 0;
    const std::int64_t states = layer.state.kind == CellKind::kLstm ? 2 : 1;
    layer.chunks.push_back({.start = start, .steps = steps, .action = layer.current});
    layer.state.steps += steps;
    layer.saved_bytes += 4 * steps * layer.state.batch * layer.state.hidden * (wide + states);
  }
  calls_.push_back(call);
}

std::string Gearbox::key_of(const Layer& layer) {
  const ppo::LayerState& s = layer.state;
  return fmt::format("{} {} {} {} {}", layer.name, s.batch, s.chunk, s.steps, s.is_training);
}

void Gearbox::remember() {
  constexpr std::size_t kMost = 256;  // shapes of batches times layers
  if (known_.size() > kMost) known_.clear();
  for (Layer& layer : layers_) known_[key_of(layer)] = std::move(layer.times);
}

void Gearbox::recall(Layer& layer, bool is_training) {
  layer.state.is_training = is_training;
  const auto known = known_.find(key_of(layer));
  if (known != known_.end()) layer.times = known->second;
  if (layer.times.actions() != actions_.size() || layer.times.chunks() != layer.chunks.size()) {
    layer.times.reset(actions_.size(), layer.chunks.size());
  }
  layer.times.tell(layer.state);
}

void Gearbox::attach(Executor& executor) {
  executor_ = &executor;
  remember();
  const std::vector<Layer> before = std::move(layers_);
  layers_.clear();
  calls_.clear();
  std::vector<Tick> ticks;
  bool is_training = false;
  for (Tick t = 0; t < executor.plan().instructions.size(); ++t) {
    const Instruction& in = executor.plan().instructions[t];
    is_training = is_training || executor.program().graph.at(in.node).phase != Phase::kForward;
    if (!is_call(in.action)) continue;
    if (dynamic_cast<GearedKernel*>(executor.program().kernels[in.node.index].get()) == nullptr) continue;
    ticks.push_back(t);
    add_call(executor, t);
  }
  executor.set_gears(this, ticks);
  std::size_t most = 0;
  for (Layer& layer : layers_) {
    most = std::max(most, layer.chunks.size());
    recall(layer, is_training);
    const auto old = std::find_if(before.begin(), before.end(), [&](const Layer& l) { return l.name == layer.name; });
    if (old == before.end()) continue;
    layer.switches = old->switches;
    layer.choices = old->choices;
    if (old->state.batch != layer.state.batch || old->state.is_training != is_training ||
        old->state.chunk != layer.state.chunk)
      continue;
    if (layer.state.allowed[old->current]) layer.current = old->current;
  }
  rewards_.reserve(most);
  us_.reserve(most);
  taken_.reserve(most);
  if (agent_ && !layers_.empty()) agent_->reserve(layers_.size(), most);
  if (agent_ && !layers_.empty() && !counters_) {
    std::string why;
    counters_ = HardwareCounters::open(why);
  }
}

void Gearbox::enter(Executor& executor, double headroom) {
  const auto start = Clock::now();
  if (executor_ != &executor || !executor.has_gears_from(this)) attach(executor);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    note_readings(layer);
    layer.state.headroom = headroom;
    layer.busy_ms = layer.elapsed_ms = 0;
    layer.choices_now = 0;
    for (Chunk& c : layer.chunks) {
      c.forward_ms = c.backward_ms = 0;
      c.is_chosen = false;
    }
    if (agent_) agent_->begin_sequence(l);
  }
  overhead_ms_ += ms_since(start);
}

// What the last step showed, for the choices of the next one.
void Gearbox::note_readings(Layer& layer) const {
  const double possible = layer.elapsed_ms * std::max(1, omp_get_max_threads());
  if (possible > 0) layer.state.utilisation = std::clamp(layer.busy_ms / possible, 0.0, 1.0);
  double misses = 0;
  int counted = 0;
  for (const Chunk& c : layer.chunks) {
    if (c.misses < 0) continue;
    misses += c.misses;
    ++counted;
  }
  if (counted > 0) layer.state.miss_rate = misses / counted;
}

void Gearbox::choose(std::size_t l, Chunk& chunk) {
  Layer& layer = layers_[l];
  chunk.action = layer.current;
  if (!agent_ || !layer.state.is_training) return;
  const auto start = Clock::now();
  if (credit_ms_ > 0) {
    chunk.action = agent_->select_execution_profile(l, layer.current, layer.state);
    chunk.is_chosen = true;
    ++layer.choices_now;
    ++layer.choices;
  } else {
    chunk.action = agent_->settle(l, layer.current, layer.state);
  }
  if (chunk.action != layer.current) ++layer.switches;
  layer.current = chunk.action;
  const double ms = ms_since(start);
  credit_ms_ -= ms;
  overhead_ms_ += ms;
}

std::uint32_t Gearbox::gear_for(std::uint32_t call) {
  const Call& c = calls_[call];
  if (c.layer >= layers_.size()) return 0;
  Chunk& chunk = layers_[c.layer].chunks[c.chunk];
  if (!c.is_backward && !c.is_again) choose(c.layer, chunk);
  if (counters_) before_ = counters_->read();
  call_cpu_ms_ = process_ms();
  call_start_ = Clock::now();
  return actions_[chunk.action].gear.code();
}

void Gearbox::has_run(std::uint32_t call) {
  const Call& c = calls_[call];
  if (c.layer >= layers_.size()) return;
  Layer& layer = layers_[c.layer];
  Chunk& chunk = layer.chunks[c.chunk];
  const double ms = ms_since(call_start_);
  layer.elapsed_ms += ms;
  layer.busy_ms += process_ms() - call_cpu_ms_;
  (c.is_backward ? chunk.backward_ms : chunk.forward_ms) += ms;
  if (!counters_) return;
  const CounterReading r = counters_->read() - before_;
  if (r.cache_references > 0) {
    chunk.misses = static_cast<double>(r.cache_misses) / static_cast<double>(r.cache_references);
  }
}

// A reward stands for what the layer's whole way through a chunk took, there and back.
void Gearbox::reward(std::size_t l) {
  Layer& layer = layers_[l];
  const auto chosen =
      std::count_if(layer.chunks.begin(), layer.chunks.end(), [](const Chunk& c) { return c.is_chosen; });
  if (layer.choices_now != chosen) return agent_->begin_sequence(l);  // the step was run twice: times are of both
  const auto us_of = [](const Chunk& c) {
    return (c.forward_ms + c.backward_ms) * 1e3 / static_cast<double>(std::max<std::int64_t>(c.steps, 1));
  };
  us_.clear();
  taken_.clear();
  for (const Chunk& c : layer.chunks) {
    us_.push_back(us_of(c));
    taken_.push_back(c.action);
  }
  if (!us_.empty()) {
    const double known = layer.state.measured_us[taken_.back()];
    layer.state.pace = known > 0 ? us_.back() / known : 1;
  }
  layer.times.note(taken_, us_);
  layer.times.tell(layer.state);
  const double best = layer.times.best_us();
  rewards_.clear();
  std::size_t before = layer.chunks.empty() ? 0 : layer.chunks.front().action;
  for (const Chunk& c : layer.chunks) {
    // What a switch costs shows in the time of its chunk; the rest is against thrashing.
    constexpr double kSwitchShare = 0.01;
    const double switch_us = c.action == before ? 0 : kSwitchShare * us_of(c);
    before = c.action;
    if (!c.is_chosen) continue;
    rewards_.push_back(ppo::reward_of({.us = us_of(c),
                                       .best_us = best,
                                       .switch_us = switch_us,
                                       .miss_rate = c.misses >= 0 ? std::optional(c.misses) : std::nullopt}));
  }
  if (learns_ && !rewards_.empty()) agent_->end_sequence(l, rewards_);
}

void Gearbox::leave(double ms) {
  const auto start = Clock::now();
  ++steps_;
  credit_ms_ = std::min(credit_ms_ + kShare * ms, kFirstCreditMs);
  earned_ms_ += kShare * ms;
  if (!agent_) return;
  for (std::size_t l = 0; l < layers_.size(); ++l) reward(l);
  if (learns_ && steps_ % kLessonEvery == 0 && credit_ms_ > 0 && earned_ms_ > lesson_ms_ && agent_->remembered() > 0) {
    const auto lesson = Clock::now();
    agent_->learn(1);
    lesson_ms_ = ms_since(lesson);
    credit_ms_ -= lesson_ms_;
    earned_ms_ = 0;
  }
  overhead_ms_ += ms_since(start);
}

std::int64_t Gearbox::bytes() const {
  std::int64_t out = agent_ != nullptr ? agent_->bytes() : 0;
  for (const auto& [layer, times] : known_) out += times.bytes();
  for (const Layer& l : layers_) {
    out += l.times.bytes() + static_cast<std::int64_t>(sizeof(Layer) + l.chunks.size() * sizeof(Chunk));
  }
  return out + static_cast<std::int64_t>(calls_.size() * sizeof(Call));
}

std::vector<RecurrentReport> Gearbox::report() const {
  std::vector<RecurrentReport> out;
  for (const Layer& l : layers_) {
    RecurrentReport r{.layer = l.name, .gates = l.keeps_gates ? "keep" : "recompute"};
    std::vector<int> uses(actions_.size());
    const double steps = static_cast<double>(std::max<std::int64_t>(l.state.steps, 1));
    for (const Chunk& c : l.chunks) {
      ++uses[c.action];
      r.forward_us += c.forward_ms * 1e3 / steps;
      r.backward_us += c.backward_ms * 1e3 / steps;
    }
    Layer now = l;
    note_readings(now);
    r.gear = actions_[static_cast<std::size_t>(std::max_element(uses.begin(), uses.end()) - uses.begin())].gear.text();
    r.saved_bytes = l.saved_bytes;
    r.workspace_bytes = l.workspace_bytes;
    r.utilisation = now.state.utilisation;
    r.miss_rate = now.state.miss_rate;
    r.miss_source = now.state.miss_rate ? "hw" : has_caches() ? "modelled" : "absent";
    if (!r.miss_rate && has_caches()) r.miss_rate = modelled_miss_rate(working_set(l.state), find_caches());
    r.choices = l.choices;
    r.switches = l.switches;
    out.push_back(std::move(r));
  }
  return out;
}

Tape Gearbox::tape(std::string_view layer) const {
  Tape out;
  for (const Layer& l : layers_) {
    if (l.name != layer) continue;
    for (const Chunk& c : l.chunks) out.push_back({c.start, c.steps, actions_[c.action].gear, l.keeps_gates});
  }
  return out;
}

}  // namespace neap
