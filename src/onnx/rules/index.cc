// Ops that pick and place elements by index.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

// A table of vectors read by numbers of rows is an embedding; anything else is a general gather.
void gather(Context& c) {
  const int axis = plain_axis(c.integer("axis", 0), c.rank(0));
  const bool is_table = c.operand(0).weight != nullptr && axis == 0 && c.rank(0) == 2;
  if (is_table && !c.is_constant(1)) return c.out(0, c.add("embedding", {c.in(0), c.in(1)}));
  if (c.is_constant(1) && c.shape(1).count() == 1 && !c.is_constant(0)) {
    std::int64_t at = c.integer(1);
    const std::int64_t size = c.shape(0).size(axis);
    if (at < -size || at >= size) throw UserError(fmt::format("there is no index {} on an axis of {}", at, size));
    if (at < 0) at += size;
    const Value one = c.add("slice", {c.in(0)}, {{"axes", Ints{axis}}, {"starts", Ints{at}}, {"ends", Ints{at + 1}}});
    Shape to;
    for (int i = 0; i < axis; ++i) to.push_back(c.shape(0)[i]);
    for (const Dim& d : c.shape(1)) to.push_back(d);
    for (int i = axis + 1; i < c.rank(0); ++i) to.push_back(c.shape(0)[i]);
    return c.out(0, c.reshape(one, to));
  }
  c.out(0, c.add("gather", {c.in(0), c.in(1)}, {{"axis", static_cast<std::int64_t>(axis)}}));
}

void gather_elements(Context& c) {
  c.out(0, c.add("gather_elements", {c.in(0), c.in(1)}, {{"axis", c.integer("axis", 0)}}));
}

void gather_nd(Context& c) {
  c.out(0, c.add("gather_nd", {c.in(0), c.in(1)}, {{"batch_dims", c.integer("batch_dims", 0)}}));
}

void scatter_elements(Context& c) {
  c.out(0, c.add("scatter_elements", {c.in(0), c.in(1), c.in(2)},
                 {{"axis", c.integer("axis", 0)}, {"reduction", c.text("reduction", "none")}}));
}

void scatter_nd(Context& c) {
  c.out(0, c.add("scatter_nd", {c.in(0), c.in(1), c.in(2)}, {{"reduction", c.text("reduction", "none")}}));
}

// Which elements are taken must be known, since the result's shape depends on it.
void compress(Context& c) {
  const Ints condition = c.ints(1);
  const bool is_flat = !c.has_attr("axis");
  const Value x = is_flat ? c.reshape(c.in(0), {c.shape(0).elements()}) : c.in(0);
  const int axis = is_flat ? 0 : plain_axis(c.integer("axis"), c.rank(0));
  Ints taken;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) taken.push_back(static_cast<std::int64_t>(i));
  }
  c.out(0, c.add("gather", {x, c.constant_of(make_ints(taken))}, {{"axis", static_cast<std::int64_t>(axis)}}));
}

void one_hot(Context& c) {
  const std::vector<double> values = c.reals(2);
  const Ints depth = c.ints(1);
  if (values.size() != 2 || depth.size() != 1) throw UserError("depth must be a number, values two");
  const Value indices = is_float(c.dtype(0)) ? c.cast(c.in(0), DType::kI64) : c.in(0);
  c.out(0, c.add("one_hot", {indices},
                 {{"depth", depth[0]},
                  {"axis", c.integer("axis", -1)},
                  {"off", values[0]},
                  {"on", values[1]},
                  {"dtype", std::string(name(c.dtype(2)))}}));
}

void top_k(Context& c) {
  const Values y = c.add_all("top_k", {c.in(0)},
                             {{"k", c.integer(1)},
                              {"axis", c.integer("axis", -1)},
                              {"largest", c.integer("largest", 1)},
                              {"sorted", c.integer("sorted", 1)}});
  c.out(0, y[0]);
  c.out(1, y[1]);
}

constexpr RuleEntry kRules[] = {{"Gather", gather},
                                {"GatherElements", gather_elements},
                                {"GatherND", gather_nd},
                                {"ScatterElements", scatter_elements},
                                {"Scatter", scatter_elements},
                                {"ScatterND", scatter_nd},
                                {"Compress", compress},
                                {"OneHot", one_hot},
                                {"TopK", top_k, 10}};

}  // namespace

std::span<const RuleEntry> index_rules() { return kRules; }

}  // namespace neap::onnx
