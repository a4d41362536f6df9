#include "policy/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "core/bytes.h"
#include "device/cpu/one_thread.h"
#include "graph/initial.h"
#include "neap/error.h"
#include "plan/validate.h"
#include "runtime/executor.h"

namespace neap {

std::int64_t bytes_of(const NetworkWeights& weights) {
  std::int64_t out = 0;
  for (const auto& [name, values] : weights) out += static_cast<std::int64_t>(values.size() * sizeof(float));
  return out;
}

struct Network::Inside {
  Inside(Graph graph, std::uint64_t seed) : device(make_cpu_device(0)) {
    program = prepare(std::move(graph), *device, true);
    plan = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));
    if (const auto error = validate(plan, program.graph, program.costs)) throw InternalError("network: " + *error);
    memory.resize(static_cast<std::size_t>(plan.peak_bytes + kAlignment));
    arena = device->arena_in(memory);
    executor = std::make_unique<Executor>(program, plan, *device, *arena);
    for (std::uint32_t i = 0; i < program.graph.tensors.size(); ++i) {
      const Tensor& t = program.graph.tensors[i];
      if (is_state(t.role)) executor->write({i}, initial_value(t, seed).data());
    }
  }

  TensorId find(std::string_view name) const {
    const auto result = program.graph.output(name);
    const auto id = result ? result : program.graph.find(name);
    if (!id) throw InternalError(fmt::format("the network has no tensor '{}'", name));
    return *id;
  }

  template <class T>
  std::span<T> data(std::string_view name, DType dtype) const {
    const TensorId id = find(name);
    const TensorType& type = program.graph.at(id).type;
    require(type.dtype == dtype, "the tensor is of the type that is asked for");
    return {reinterpret_cast<T*>(executor->at(id)), static_cast<std::size_t>(type.elements())};
  }

  std::unique_ptr<Device> device;
  Program program;
  Plan plan;
  std::vector<std::byte> memory;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Executor> executor;
};

Network::Network(Graph graph, std::uint64_t seed) {
  const OneThread alone;  // workspaces are booked for as many threads as there are now
  inside_ = std::make_unique<Inside>(std::move(graph), seed);
}
Network::~Network() = default;
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;

std::span<float> Network::floats(std::string_view name) { return inside_->data<float>(name, DType::kF32); }
std::span<std::int32_t> Network::integers(std::string_view name) {
  return inside_->data<std::int32_t>(name, DType::kI32);
}

void Network::run() {
  const OneThread alone;
  inside_->executor->run();
}

void Network::train(std::int64_t step, double lr, const OptimizerOptions& optimizer, const BatchPart& part) {
  const Hyper hyper = hyper_at(step, lr, optimizer, part.is_last ? 1.0 / static_cast<double>(part.parts) : 0);
  std::ranges::copy(hyper, floats(kHyperInput).begin());
  if (part.parts > 1) floats(kPartInput)[0] = part.is_first ? 0 : 1;
  run();
}

NetworkWeights Network::weights() const {
  NetworkWeights out;
  for (const TensorId id : inside_->program.graph.with_role(Role::kParameter)) {
    const std::string& name = inside_->program.graph.at(id).name;
    const std::span<float> values = inside_->data<float>(name, DType::kF32);
    out[name].assign(values.begin(), values.end());
  }
  return out;
}

void Network::load(const NetworkWeights& weights) {
  for (const TensorId id : inside_->program.graph.with_role(Role::kParameter)) {
    const std::string& name = inside_->program.graph.at(id).name;
    const auto given = weights.find(name);
    if (given == weights.end()) continue;
    const std::span<float> values = inside_->data<float>(name, DType::kF32);
    require(values.size() == given->second.size(), "weights have the size of the network's");
    std::ranges::copy(given->second, values.begin());
  }
}

void Network::forget_moments() {
  for (const TensorId id : inside_->program.graph.with_role(Role::kOptimizer)) {
    std::memset(inside_->executor->at(id), 0, static_cast<std::size_t>(inside_->program.graph.at(id).type.bytes()));
  }
}

std::int64_t Network::arena_bytes() const { return inside_->arena->bytes(); }

Graph with_training(Builder& g, const OptimizerOptions& optimizer, std::int64_t parts) {
  const auto loss = g.graph().output("loss");
  require(loss.has_value(), "a network that learns has a loss");
  append_updates(g, differentiate(g, *loss, g.graph().with_role(Role::kParameter)), optimizer, parts);
  Graph out = g.take();
  verify(out);
  return out;
}

}  // namespace neap
