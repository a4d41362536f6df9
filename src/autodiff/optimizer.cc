#include "autodiff/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "neap/error.h"

namespace neap {
namespace {

Value optimizer_state(Builder& g, TensorId parameter, std::string_view suffix) {
  const Tensor& p = g.graph().at(parameter);
  return g.graph().add({.name = fmt::format("{}.{}", p.name, suffix),
                        .type = p.type,
                        .role = Role::kOptimizer,
                        .outside_axes = p.outside_axes});
}

// For each parameter the state in which its gradients are summed up.
std::map<TensorId, Value> accumulated(Builder& g, const std::map<TensorId, Value>& gradients) {
  const Value part = g.input(std::string(kPartInput), DType::kF32, {1});
  std::map<TensorId, Value> out;
  for (const auto& [parameter, gradient] : gradients) {
    const Value sum = optimizer_state(g, parameter, "sum");
    g.add("accumulate", {sum, gradient, part}, {}, g.name_of(parameter) + ".accumulate");
    out.emplace(parameter, sum);
  }
  return out;
}

// The factor by which every gradient is scaled so that their common norm stays below the limit.
Value clip_factor(Builder& g, const std::map<TensorId, Value>& gradients, double limit) {
  Values parts;
  for (const auto& [parameter, gradient] : gradients) parts.push_back(g("square_sum", {gradient}));
  return g("clip_scale", parts, {{"max_norm", limit}}, "clip");
}

void append_update(Builder& g, TensorId parameter, Value gradient, Value hyper, Value clip, const OptimizerOptions& o) {
  const std::string name = g.name_of(parameter) + ".update";
  if (o.name == "sgd") {
    const Value momentum = o.momentum > 0 ? optimizer_state(g, parameter, "momentum") : Value{};
    g.add("sgd_update", {parameter, gradient, momentum, hyper, clip}, {{"nesterov", std::int64_t{o.nesterov}}}, name);
    return;
  }
  const Value m = optimizer_state(g, parameter, "m");
  const Value v = optimizer_state(g, parameter, "v");
  g.add(o.name + "_update", {parameter, gradient, m, v, hyper, clip}, {}, name);
}

}  // namespace

void check(const OptimizerOptions& o) {
  if (o.name != "sgd" && o.name != "adam" && o.name != "adamw") {
    throw UserError(fmt::format("optimizer '{}' is not known; take sgd, adam or adamw", o.name));
  }
  const auto positive = [](double x) { return std::isfinite(x) && x >= 0; };
  if (!positive(o.lr)) throw UserError(fmt::format("learning rate {} is not a number from 0 up", o.lr));
  if (!positive(o.momentum) || o.momentum >= 1)
    throw UserError(fmt::format("momentum {} is not in [0, 1)", o.momentum));
  if (!positive(o.beta1) || o.beta1 >= 1) throw UserError(fmt::format("beta1 {} is not in [0, 1)", o.beta1));
  if (!positive(o.beta2) || o.beta2 >= 1) throw UserError(fmt::format("beta2 {} is not in [0, 1)", o.beta2));
  if (!positive(o.epsilon)) throw UserError(fmt::format("epsilon {} is not a number from 0 up", o.epsilon));
  if (!positive(o.weight_decay))
    throw UserError(fmt::format("weight decay {} is not a number from 0 up", o.weight_decay));
  if (!positive(o.clip)) throw UserError(fmt::format("clipping norm {} is not a number from 0 up", o.clip));
}

void append_updates(Builder& g, const std::map<TensorId, Value>& of_batch, const OptimizerOptions& options,
                    std::int64_t parts) {
  check(options);
  const std::size_t before = g.graph().nodes.size();
  const Value hyper = g.input(std::string(kHyperInput), DType::kF32, {8});
  const auto gradients = parts > 1 ? accumulated(g, of_batch) : of_batch;
  const double most = options.clip * static_cast<double>(parts);  // of a sum, whose mean is what counts
  const Value clip = most > 0 && !gradients.empty() ? clip_factor(g, gradients, most) : Value{};
  const std::size_t first_update = parts > 1 ? before : g.graph().nodes.size();
  for (const auto& [parameter, gradient] : gradients) append_update(g, parameter, gradient, hyper, clip, options);
  for (std::size_t i = before; i < g.graph().nodes.size(); ++i) {
    g.graph().nodes[i].phase = i < first_update ? Phase::kBackward : Phase::kUpdate;
    g.graph().nodes[i].layer = "optimizer";
  }
}

Hyper hyper_at(std::int64_t step, double lr, const OptimizerOptions& o, double scale) {
  const auto t = static_cast<double>(step);
  const double first = o.name == "sgd" ? o.momentum : o.beta1;
  return {static_cast<float>(lr),
          static_cast<float>(first),
          static_cast<float>(o.beta2),
          static_cast<float>(o.epsilon),
          static_cast<float>(o.weight_decay),
          static_cast<float>(1.0 - std::pow(o.beta1, t)),
          static_cast<float>(1.0 - std::pow(o.beta2, t)),
          static_cast<float>(scale)};
}

}  // namespace neap
