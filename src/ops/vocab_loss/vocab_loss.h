// A linear layer into many classes, cross entropy over them, and all their gradients, in one call that never has the
// logits as a whole beside the weight's gradient.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ops/cross_entropy/cross_entropy_simd.h"
#include "ops/kernel.h"

namespace neap::ops {

struct VocabShape {
  std::int64_t rows = 0, in = 0;
  ClassRows classes{};
  bool bias = false;
  bool mean = true;
  bool tf32 = false;  // on a GPU (ops/product_math.h)

  // Rows that go through at one time. Where all rows' logits have no more bytes than the weight's gradient, they lie in
  // its place until it takes theirs, tile by tile; otherwise chunks of rows lie in the workspace.
  bool fits_in_gradient() const { return rows <= in; }
  std::int64_t chunk() const;
  std::int64_t tile() const;  // classes
};

VocabShape vocab_shape(const OpCall& call);

// The three products of one tile of classes.
struct TileProducts {
  using Logits = std::function<void(const float* x, const float* w, const float* bias, float* y, std::byte* scratch)>;
  using Gradient = std::function<void(const float* g, const float* other, float* d, bool add, std::byte* scratch)>;
  Logits logits;    // y = x w^T + bias
  Gradient input;   // d [+]= g w
  Gradient weight;  // d [+]= g^T x
  std::int64_t scratch = 0;
  std::string numerics;
};
struct TileShape {
  std::int64_t rows, columns, in;
  bool bias;
};
using MakeProducts = std::optional<TileProducts> (*)(const TileShape&);

// Nothing where the products cannot be made. Of vocab_loss, vocab_delta or vocab_weight.
Prepared vocab_loss_by(const OpCall& call, MakeProducts make);
Prepared vocab_weight_by(const OpCall& call, MakeProducts make);
using MakePrepared = Prepared (*)(const OpCall& call, MakeProducts make);

// The gradient of the logits, [classes, rows], tile after tile of classes: each has dense rows.
struct DeltaPlaces {
  std::int64_t rows = 0, classes = 0, tile = 0;

  constexpr std::int64_t columns(std::int64_t first) const { return classes - first < tile ? classes - first : tile; }
  // Of a row's classes from `first` on, where a tile begins.
  constexpr std::int64_t begin(std::int64_t row, std::int64_t first) const {
    return first * rows + row * columns(first);
  }
  constexpr std::int64_t at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = column / tile * tile;
    return begin(row, first) + column - first;
  }
};
VocabShape delta_shape(const Shape& x, const Shape& delta);
DeltaPlaces delta_places(const VocabShape& s);

[[gnu::weak]] Prepared vocab_onednn(const OpCall& call, MakePrepared prepare);
Prepared vocab_own(const OpCall& call, MakePrepared prepare);
// vocab_loss is linear_loss there.
[[gnu::weak]] Prepared vocab_delta_cuda(const OpCall& call);
[[gnu::weak]] Prepared vocab_weight_cuda(const OpCall& call);
Prepared vocab_loss_ref(const OpCall& call);
Prepared vocab_delta_ref(const OpCall& call);
Prepared vocab_weight_ref(const OpCall& call);

}  // namespace neap::ops
