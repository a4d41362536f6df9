#include "neap/layers.h"
#include "registry.h"

namespace neap {

Value image_input(Builder& g, const ModelContext& c) {
  return g.input("image", DType::kF32, {Dim::symbol("batch"), c.image, c.image, c.channels});
}

Value label_input(Builder& g) { return g.input("label", DType::kI32, {Dim::symbol("batch")}); }

Value token_input(Builder& g, const ModelContext& c) {
  return g.input("tokens", DType::kI32, {Dim::symbol("batch"), c.length});
}

Value target_input(Builder& g, const ModelContext& c) {
  return g.input("targets", DType::kI32, {Dim::symbol("batch"), c.length});
}

void finish(Builder& g, Value logits, Value targets) {
  if (g.mode() == Mode::kEvaluation) g.output("correct", g("correct_count", {logits, targets}));
  cross_entropy_loss(g, logits, targets);
}

}  // namespace neap
