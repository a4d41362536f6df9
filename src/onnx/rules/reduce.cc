// Reductions, and functions along an axis.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

struct Rename {
  std::string_view from, to;
};
constexpr Rename kNames[] = {{"ReduceSum", "reduce_sum"},
                             {"ReduceMean", "reduce_mean"},
                             {"ReduceMax", "reduce_max"},
                             {"ReduceMin", "reduce_min"},
                             {"ReduceProd", "reduce_prod"},
                             {"ReduceL1", "reduce_l1"},
                             {"ReduceL2", "reduce_l2"},
                             {"ReduceLogSumExp", "reduce_log_sum_exp"},
                             {"ReduceSumSquare", "reduce_sum_square"},
                             {"ReduceLogSum", "reduce_sum"}};

std::string_view renamed(std::string_view op) {
  for (const Rename& row : kNames) {
    if (row.from == op) return row.to;
  }
  throw InternalError(fmt::format("no name for {}", op));
}

void reduce(Context& c) {
  const int rank = c.rank(0);
  Ints all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  Ints which = plain_axes(c.ints(1, "axes", {}), rank);
  const std::string& op = c.node.op_type();
  if (which.empty()) {
    if (c.integer("noop_with_empty_axes", 0) != 0) return c.out(0, c.operand(0));
    which = all;
  }
  Perm axes;
  const bool keeps = c.integer("keepdims", 1) != 0;
  Value x = keeps ? c.as_it_is(0, axes) : c.in(0);
  if (!axes.empty()) {
    for (std::int64_t& axis : which) axis = axes[static_cast<std::size_t>(axis)];
  }
  std::sort(which.begin(), which.end());
  x = c.add(renamed(op), {x}, {{"axes", which}, {"keepdims", static_cast<std::int64_t>(keeps)}});
  c.out(0, op == "ReduceLogSum" ? c.add("log", {x}) : x, axes);
}

void arg(Context& c) {
  c.out(0, c.add(c.node.op_type() == "ArgMax" ? "argmax" : "argmin", {c.in(0)},
                 {{"axis", c.integer("axis", 0)},
                  {"keepdims", c.integer("keepdims", 1)},
                  {"select_last_index", c.integer("select_last_index", 0)}}));
}

void cumsum(Context& c) {
  c.out(
      0,
      c.add("cumsum", {c.in(0)},
            {{"axis", c.integer(1)}, {"exclusive", c.integer("exclusive", 0)}, {"reverse", c.integer("reverse", 0)}}));
}

void along_axis(Context& c) {
  const std::string& op = c.node.op_type();
  const int axis = plain_axis(c.integer("axis", -1), c.rank(0));
  Perm axes;
  const Value x = c.as_it_is(0, axes);
  const std::int64_t here = axes.empty() ? axis : axes[static_cast<std::size_t>(axis)];
  c.out(0,
        c.add(op == "Softmax"      ? "softmax"
              : op == "LogSoftmax" ? "log_softmax"
                                   : "hardmax",
              {x}, {{"axis", here}}),
        axes);
}

constexpr RuleEntry kRules[] = {{"ReduceSum", reduce},
                                {"ReduceMean", reduce},
                                {"ReduceMax", reduce},
                                {"ReduceMin", reduce},
                                {"ReduceProd", reduce},
                                {"ReduceL1", reduce},
                                {"ReduceL2", reduce},
                                {"ReduceLogSumExp", reduce},
                                {"ReduceSumSquare", reduce},
                                {"ReduceLogSum", reduce},
                                {"ArgMax", arg},
                                {"ArgMin", arg},
                                {"CumSum", cumsum},
                                {"Softmax", along_axis, 13},
                                {"LogSoftmax", along_axis, 13},
                                {"Hardmax", along_axis, 13}};

}  // namespace

std::span<const RuleEntry> reduce_rules() { return kRules; }

}  // namespace neap::onnx
