#include <algorithm>

#include "ops/matmul/product_onednn.h"
#include "ops/vocab_loss/vocab_loss.h"

namespace neap::ops {
namespace {

// A product that writes, and one that adds.
TileProducts::Gradient gradient(std::shared_ptr<ProductCall> first, std::shared_ptr<ProductCall> more) {
  return [first = std::move(first), more = std::move(more)](const float* g, const float* other, float* d, bool add,
                                                            std::byte* scratch) {
    (add ? *more : *first).run(g, other, nullptr, d, scratch);
  };
}

std::optional<TileProducts> products(const TileShape& t) {
  TileProducts out;
  bool is_whole = true;
  const auto make = [&](const Product& p) -> std::shared_ptr<ProductCall> {
    auto made = onednn_product(p);
    is_whole = is_whole && made.has_value();
    if (!made) return nullptr;
    out.scratch = std::max(out.scratch, made->call.scratchpad_bytes());
    out.numerics += made->numerics + " ";
    return std::make_shared<ProductCall>(std::move(*made));
  };
  const auto logits = make({.m = t.rows,
                            .n = t.columns,
                            .k = t.in,
                            .a = dense_matrix(t.rows, t.in, false),
                            .b = dense_matrix(t.in, t.columns, true),
                            .bias = t.bias});
  Product input{.m = t.rows,
                .n = t.in,
                .k = t.columns,
                .a = dense_matrix(t.rows, t.columns, false),
                .b = dense_matrix(t.columns, t.in, false)};
  Product weight{.m = t.columns,
                 .n = t.in,
                 .k = t.rows,
                 .a = dense_matrix(t.columns, t.rows, true),
                 .b = dense_matrix(t.rows, t.in, false)};
  const auto first_input = make(input);
  const auto first_weight = make(weight);
  input.accumulate = weight.accumulate = true;
  out.input = gradient(first_input, make(input));
  out.weight = gradient(first_weight, make(weight));
  out.logits = [logits](const float* x, const float* w, const float* bias, float* y, std::byte* scratch) {
    logits->run(x, w, bias, y, scratch);
  };
  if (!is_whole) return std::nullopt;
  return out;
}

}  // namespace

Prepared vocab_onednn(const OpCall& call, MakePrepared prepare) { return prepare(call, products); }

}  // namespace neap::ops
