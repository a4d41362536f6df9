#include "ops/cross_entropy/classes.h"

#include "ops/matmul/checks.h"

namespace neap::ops {

void check_targets(const Shape& scores, const OpCall& call, std::size_t targets) {
  need_index(call, targets);
  need(scores.rank() >= 1, "the classes need an axis");
  need_same_shape(leading(scores, 1), call.shape(targets), "there must be one target a row");
  const std::string reduction = call.attrs.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum") throw UserError("reduction must be mean or sum, not " + reduction);
  call.attrs.integer("ignore_index", -100);
  const double smoothing = call.attrs.real("label_smoothing", 0);
  need(smoothing >= 0 && smoothing <= 1, "label_smoothing must lie in [0, 1]");
}

void check_classes(const OpCall& call, std::size_t scores, std::size_t targets) {
  need_f32(call, scores);
  check_targets(call.shape(scores), call, targets);
}

ClassRows class_rows(const Shape& scores, const OpCall& call, std::size_t targets) {
  return {.rows = call.in(targets).elements(),
          .classes = scores.size(-1),
          .ignore = call.attrs.integer("ignore_index", -100),
          .smoothing = static_cast<float>(call.attrs.real("label_smoothing", 0)),
          .wide = call.in(targets).dtype == DType::kI64};
}

ClassRows class_rows(const OpCall& call, std::size_t scores, std::size_t targets) {
  return class_rows(call.shape(scores), call, targets);
}

bool is_mean(const Attrs& attrs) { return attrs.text("reduction", "mean") == "mean"; }

std::int64_t counted(const ClassRows& c, const void* targets) {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < c.rows; ++r) count += is_counted(c, target_at(c, targets, r)) ? 1 : 0;
  return count;
}

double loss_scale(const ClassRows& c, const void* targets, bool mean) {
  if (!mean) return 1;
  const std::int64_t count = counted(c, targets);
  return count == 0 ? 0 : 1.0 / static_cast<double>(count);
}

}  // namespace neap::ops
