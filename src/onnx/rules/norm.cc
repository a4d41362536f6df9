// Normalisations.
#include <fmt/format.h>

#include <numeric>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/importer.h"

namespace neap::onnx {
namespace {

// running * momentum + new * (1 - momentum)
Value moved_on(Context& c, std::size_t running, Value now, double momentum) {
  const Value old = c.add("mul", {c.in(running), c.g.scalar(momentum)});
  return c.add("add", {old, c.add("mul", {now, c.g.scalar(1 - momentum)})});
}

// In training the running statistics are the model's state: they change in place, and the outputs are their names.
void batch_norm(Context& c) {
  const Perm last = channels_last(c.rank(0));
  const double epsilon = c.real("epsilon", 1e-5F);
  const double momentum = c.real("momentum", 0.9F);
  const bool file_trains = c.integer("training_mode", 0) != 0;
  const bool trains = !c.batch_norm_frozen(file_trains);
  const Value x = c.moved(0, last);
  const Value scale = c.in(1);
  const Value bias = c.in(2);
  Attrs attrs;
  Values s;
  if (trains) {
    s = c.add_all("batch_stats", {x}, {{"epsilon", epsilon}});
    const bool is_state = c.operand(3).weight && c.operand(4).weight;
    if (is_state) {
      c.add_all("running_stats", {c.in(3), c.in(4), s[0], s[2]}, {{"rate", 1 - momentum}});
      c.out(1, c.operand(3));
      c.out(2, c.operand(4));
    } else {
      if (c.wants(1)) c.out(1, moved_on(c, 3, s[0], momentum));
      if (c.wants(2)) c.out(2, moved_on(c, 4, s[2], momentum));
    }
  } else {
    s = c.add_all("frozen_stats", {c.in(3), c.in(4)}, {{"epsilon", epsilon}});
    attrs.set("frozen", std::int64_t{1});
    if (c.wants(1)) c.out(1, c.operand(3));
    if (c.wants(2)) c.out(2, c.operand(4));
  }
  c.out(0, c.add("batch_norm_apply", {x, s[0], s[1], scale, bias}, attrs), inverse(last));
}

void layer_norm(Context& c) {
  const int rank = c.rank(0);
  const int axis = plain_axis(c.integer("axis", -1), rank);
  Shape inner;
  for (int i = axis; i < rank; ++i) inner.push_back(c.shape(0)[i]);
  const auto fitted = [&](std::size_t i) {
    if (c.shape(i).elements() == inner.elements()) return c.reshape(c.in(i), inner);
    return c.add("expand", {c.in(i)}, {{"shape", inner}});
  };
  Values x = {c.in(0), fitted(1)};
  if (c.has(2)) x.push_back(fitted(2));
  const Values y =
      c.add_all("layer_norm", x, {{"epsilon", c.real("epsilon", 1e-5F)}, {"axis", static_cast<std::int64_t>(axis)}});
  c.out(0, y[0]);
  Shape outer;
  for (int i = 0; i < rank; ++i) outer.push_back(i < axis ? c.shape(0)[i] : Dim(1));
  if (c.wants(1)) c.out(1, c.reshape(y[1], outer));
  if (c.wants(2)) c.out(2, c.reshape(y[2], outer));
}

void grouped(Context& c, std::int64_t groups) {
  const Perm last = channels_last(c.rank(0));
  const std::int64_t channels = c.shape(0).size(1);
  if (groups < 1 || channels % groups != 0)
    throw UserError(fmt::format("{} groups do not divide {} channels", groups, channels));
  const auto per_channel = [&](std::size_t i) {
    const Value v = c.in(i);
    if (c.shape(i).count() == channels) return v;
    if (c.shape(i).count() != groups) throw UserError("scale and bias must have one number a channel or a group");
    const Value rows = c.add("expand", {c.reshape(v, {groups, 1})}, {{"shape", Shape{groups, channels / groups}}});
    return c.reshape(rows, {channels});
  };
  c.out(0,
        c.add("group_norm", {c.moved(0, last), per_channel(1), per_channel(2)},
              {{"groups", groups}, {"epsilon", c.real("epsilon", 1e-5F)}}),
        inverse(last));
}

void instance_norm(Context& c) { grouped(c, c.shape(0).size(1)); }
void group_norm(Context& c) { grouped(c, c.integer("num_groups")); }

Value minus_mean(Context& c, Value x, const Ints& axes) {
  return c.add("sub", {x, c.add("reduce_mean", {x}, {{"axes", axes}, {"keepdims", std::int64_t{1}}})});
}

void mean_variance(Context& c) {
  const Ints axes = plain_axes(c.ints("axes", {0, 2, 3}), c.rank(0));
  const Value x = minus_mean(c, c.in(0), axes);
  const Value variance = c.add("reduce_mean", {c.add("square", {x})}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  c.out(0, c.add("div", {x, c.add("add", {c.add("sqrt", {variance}), c.g.scalar(1e-9)})}));
}

void lp_norm(Context& c) {
  const std::int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) throw UserError(fmt::format("a norm of order {} is not supported", p));
  const Ints axes = {plain_axis(c.integer("axis", -1), c.rank(0))};
  const Value norm =
      c.add(p == 1 ? "reduce_l1" : "reduce_l2", {c.in(0)}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  c.out(0, c.add("div", {c.in(0), norm}));
}

constexpr RuleEntry kRules[] = {{"BatchNormalization", batch_norm, 9},        {"LayerNormalization", layer_norm},
                                {"InstanceNormalization", instance_norm},     {"GroupNormalization", group_norm},
                                {"MeanVarianceNormalization", mean_variance}, {"LpNormalization", lp_norm}};

}  // namespace

std::span<const RuleEntry> norm_rules() { return kRules; }

}  // namespace neap::onnx
