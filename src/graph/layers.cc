#include "neap/layers.h"

#include <fmt/format.h>

#include <cmath>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

std::int64_t width_of(Builder& g, Value x, std::string_view name) {
  const Shape& shape = g.shape(x);
  if (shape.rank() == 0 || !shape[-1].is_number()) {
    throw UserError(fmt::format("layer '{}' needs a known last dimension, it gets {}", name, shape.text()));
  }
  return shape[-1].number();
}

std::string joined(std::string_view name, std::string_view part) { return fmt::format("{}.{}", name, part); }

Init fan_in(std::int64_t in) { return Init::uniform(1.0 / std::sqrt(static_cast<double>(in))); }

}  // namespace

Value linear(Builder& g, std::string_view name, Value x, std::int64_t out, LinearOptions options) {
  const std::int64_t in = width_of(g, x, name);
  const bool has_std = options.init_std > 0;
  const Value weight =
      g.parameter(joined(name, "weight"), {out, in}, has_std ? Init::normal(options.init_std) : fan_in(in));
  Value bias;
  if (options.bias) bias = g.parameter(joined(name, "bias"), {out}, has_std ? Init::constant(0) : fan_in(in));
  return g("linear", {x, weight, bias}, {}, std::string(name));
}

Value conv2d(Builder& g, std::string_view name, Value x, std::int64_t out, std::int64_t kernel, ConvOptions o) {
  const std::int64_t in = width_of(g, x, name) / o.groups;
  const std::int64_t fan = in * kernel * kernel;
  const Value weight = g.parameter(joined(name, "weight"), {out, kernel, kernel, in}, fan_in(fan), {0, 3, 1, 2});
  Value bias;
  if (o.bias) bias = g.parameter(joined(name, "bias"), {out}, fan_in(fan));
  const Attrs attrs = {{"strides", Ints{o.stride, o.stride}},
                       {"pads", Ints{o.pad, o.pad, o.pad, o.pad}},
                       {"dilations", Ints{o.dilation, o.dilation}},
                       {"groups", o.groups}};
  return g("conv", {x, weight, bias}, attrs, std::string(name));
}

Value batch_norm(Builder& g, std::string_view name, Value x, BatchNormOptions o) {
  const std::int64_t width = width_of(g, x, name);
  const Value scale = g.parameter(joined(name, "weight"), {width}, Init::constant(1));
  const Value bias = g.parameter(joined(name, "bias"), {width}, Init::constant(0));
  const Value running_mean = g.buffer(joined(name, "running_mean"), {width}, 0);
  const Value running_var = g.buffer(joined(name, "running_var"), {width}, 1);
  const std::string node(name);
  const Attrs attrs = {{"relu", std::int64_t{o.relu}}};
  if (g.has_frozen_batch_norm()) {
    const Values s = g.add("frozen_stats", {running_mean, running_var}, {{"epsilon", o.epsilon}}, node + ".stats");
    Attrs frozen = attrs;
    frozen.set("frozen", std::int64_t{1});
    return g("batch_norm_apply", {x, s[0], s[1], scale, bias, o.residual}, frozen, node);
  }
  const Values s = g.add("batch_stats", {x}, {{"epsilon", o.epsilon}}, node + ".stats");
  const Dim count = g.shape(x).elements() / Dim(width);
  g.add("running_update", {running_mean, running_var, s[0], s[2]}, {{"momentum", o.momentum}, {"count", Shape{count}}},
        node + ".running");
  return g("batch_norm_apply", {x, s[0], s[1], scale, bias, o.residual}, attrs, node);
}

Value layer_norm(Builder& g, std::string_view name, Value x, double epsilon) {
  const std::int64_t width = width_of(g, x, name);
  const Value scale = g.parameter(joined(name, "weight"), {width}, Init::constant(1));
  const Value bias = g.parameter(joined(name, "bias"), {width}, Init::constant(0));
  return g("layer_norm", {x, scale, bias}, {{"epsilon", epsilon}}, std::string(name));
}

Value embedding(Builder& g, std::string_view name, Value ids, std::int64_t count, std::int64_t width, double init_std) {
  const Value table = g.parameter(joined(name, "weight"), {count, width}, Init::normal(init_std));
  return g("embedding", {table, ids}, {}, std::string(name));
}

Value dropout(Builder& g, Value x, double p) {
  if (g.mode() == Mode::kEvaluation || p == 0) return x;
  const std::string name = g.scope() + g.name_of(x) + ".dropout";
  const auto key = static_cast<std::int64_t>(hash_text(name) >> 1);
  return g("dropout", {x, g.random_key()}, {{"p", p}, {"key", key}}, "dropout");
}

Value max_pool(Builder& g, Value x, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return g("max_pool", {x},
           {{"kernel", Ints{kernel, kernel}}, {"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}});
}

Value cross_entropy_loss(Builder& g, Value logits, Value targets) {
  const Value loss = g("cross_entropy", {logits, targets}, {}, "loss");
  g.output("loss", loss);
  return loss;
}

}  // namespace neap
