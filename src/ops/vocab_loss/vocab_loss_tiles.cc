// The walk over tiles: logits and what their rows sum up to, then gradients, which need those sums.
#include <algorithm>

#include "core/bytes.h"
#include "ops/cross_entropy/classes.h"
#include "ops/vocab_loss/vocab_loss.h"
#include "ops/vocab_loss/vocab_loss_simd.h"

namespace neap::ops {
namespace {

class TiledVocabLoss final : public Kernel {
 public:
  // `products` for whole and last chunks of rows, each with whole and last tiles. `keeps_delta`: it is vocab_delta.
  TiledVocabLoss(const VocabShape& s, std::array<std::array<TileProducts, 2>, 2> products, bool keeps_delta)
      : s_(s), chunk_(s.chunk()), tile_(s.tile()), products_(std::move(products)), keeps_delta_(keeps_delta) {
    for (const auto& row : products_) {
      for (const TileProducts& p : row) scratch_ = std::max(scratch_, p.scratch);
    }
    const auto floats = [](std::int64_t n) { return align_up(n * static_cast<std::int64_t>(sizeof(float))); };
    gradient_at_ = align_up(scratch_);
    rows_at_ = gradient_at_ + (keeps_delta_ ? 0 : floats(chunk_ * tile_));
    sums_at_ = rows_at_ + 3 * floats(chunk_);
    logits_at_ = sums_at_ + align_up(kLossBlocks * static_cast<std::int64_t>(sizeof(double)));
    bytes_ = logits_at_ + (s.fits_in_gradient() ? 0 : floats(chunk_ * s.classes.classes));
  }

  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string numerics() const override { return products_[0][0].numerics; }

  void launch(const Buffers& b, Stream& /*stream*/) override {
    const double scale = loss_scale(s_.classes, b.in<void>(3), s_.mean);
    double total = 0;
    for (std::int64_t first = 0; first < s_.rows; first += chunk_) total += run_chunk(b, first, scale);
    *b.out<float>(0) = static_cast<float>(total * scale);
  }

 private:
  struct Chunk {
    std::int64_t first, rows;
    const void* targets;
    float* logits;  // tile after tile
  };

  Chunk chunk_at(const Buffers& b, std::int64_t first) const {
    const std::int64_t target_bytes = s_.classes.wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
    // At the end of the gradient: tile t of it then begins to be written where tile t of the logits was read already.
    float* inside = b.out<float>(2) + (keeps_delta_ ? 0 : s_.classes.classes * (s_.in - s_.rows));
    return {.first = first,
            .rows = std::min(chunk_, s_.rows - first),
            .targets = b.in<std::byte>(3) + first * target_bytes,
            .logits = s_.fits_in_gradient() ? inside : reinterpret_cast<float*>(b.workspace + logits_at_)};
  }

  VocabTile tile_at(const Chunk& c, std::int64_t first) const {
    return {.rows = c.rows,
            .columns = std::min(tile_, s_.classes.classes - first),
            .first = first,
            .classes = s_.classes.classes,
            .ignore = s_.classes.ignore,
            .wide = s_.classes.wide};
  }

  TileProducts& products(const VocabTile& t) { return products_[t.rows == chunk_ ? 0 : 1][t.columns == tile_ ? 0 : 1]; }

  VocabRows rows(const Buffers& b) const {
    auto* at = reinterpret_cast<float*>(b.workspace + rows_at_);
    return {.top = at, .sum = at + chunk_, .hit = at + 2 * chunk_};
  }

  double run_chunk(const Buffers& b, std::int64_t first, double scale) {
    const Chunk chunk = chunk_at(b, first);
    const VocabRows known = rows(b);
    const auto& table = vocab_loss_table();
    table.begin(known, chunk.rows);
    for (std::int64_t at = 0; at < s_.classes.classes; at += tile_) {
      const VocabTile tile = tile_at(chunk, at);
      float* logits = chunk.logits + at * chunk.rows;
      const float* bias = s_.bias ? b.in<float>(2) + at : nullptr;
      products(tile).logits(b.in<float>(0) + first * s_.in, b.in<float>(1) + at * s_.in, bias, logits, b.workspace);
      table.absorb(logits, chunk.targets, tile, known);
    }
    auto* sums = reinterpret_cast<double*>(b.workspace + sums_at_);
    table.finish(chunk.targets, tile_at(chunk, 0), known, sums);
    for (std::int64_t at = 0; at < s_.classes.classes; at += tile_) {
      differentiate(b, chunk, at, known.sum, static_cast<float>(scale));
    }
    double total = 0;
    for (std::int64_t i = 0; i < std::min(chunk.rows, kLossBlocks); ++i) total += sums[i];
    return total;
  }

  void differentiate(const Buffers& b, const Chunk& chunk, std::int64_t at, const float* lse, float scale) {
    const VocabTile tile = tile_at(chunk, at);
    TileProducts& p = products(tile);
    float* logits = chunk.logits + at * chunk.rows;
    float* g = keeps_delta_ ? logits : reinterpret_cast<float*>(b.workspace + gradient_at_);
    const auto& table = vocab_loss_table();
    table.gradient(logits, chunk.targets, tile, lse, scale, g);
    p.input(g, b.in<float>(1) + at * s_.in, b.out<float>(1) + chunk.first * s_.in, at > 0, b.workspace);
    if (!keeps_delta_) {
      p.weight(g, b.in<float>(0) + chunk.first * s_.in, b.out<float>(2) + at * s_.in, chunk.first > 0, b.workspace);
    }
    if (b.out<float>(3) != nullptr) {
      table.add_columns(g, b.out<float>(3) + at, tile.rows, tile.columns, chunk.first > 0);
    }
  }

  VocabShape s_;
  std::int64_t chunk_, tile_;
  std::array<std::array<TileProducts, 2>, 2> products_;
  bool keeps_delta_;
  std::int64_t scratch_ = 0, gradient_at_ = 0, rows_at_ = 0, sums_at_ = 0, logits_at_ = 0, bytes_ = 0;
};

std::int64_t last_of(std::int64_t all, std::int64_t part) { return all % part == 0 ? part : all % part; }

}  // namespace

Prepared vocab_loss_by(const OpCall& call, MakeProducts make) {
  const VocabShape s = vocab_shape(call);
  if (s.rows == 0 || s.in == 0 || s.classes.classes == 0) return Declined{"there is nothing to compute"};
  std::array<std::array<TileProducts, 2>, 2> products;
  const std::array rows = {s.chunk(), last_of(s.rows, s.chunk())};
  const std::array columns = {s.tile(), last_of(s.classes.classes, s.tile())};
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t c = 0; c < 2; ++c) {
      auto made = make({.rows = rows[r], .columns = columns[c], .in = s.in, .bias = s.bias});
      if (!made) return Declined{"the library has only a reference implementation for these products"};
      products[r][c] = std::move(*made);
    }
  }
  return std::make_unique<TiledVocabLoss>(s, std::move(products), call.op->name == "vocab_delta");
}

Prepared vocab_weight_by(const OpCall& call, MakeProducts make) {
  const VocabShape s = delta_shape(call.shape(0), call.shape(1));
  const std::int64_t first = call.attrs.integer("first");
  const std::int64_t last = first + call.attrs.integer("count");
  const bool is_whole = first % s.tile() == 0 && (last % s.tile() == 0 || last == s.classes.classes);
  if (s.rows == 0 || s.in == 0 || !is_whole) return Declined{"takes whole tiles"};
  auto whole = make({.rows = s.rows, .columns = s.tile(), .in = s.in, .bias = false});
  auto rest = make({.rows = s.rows, .columns = last_of(s.classes.classes, s.tile()), .in = s.in, .bias = false});
  if (!whole || !rest) return Declined{"the library has only a reference implementation for these products"};
  const auto run = [s, first, last, whole = *whole, rest = *rest](const Buffers& b) {
    for (std::int64_t at = first; at < last; at += s.tile()) {
      const auto& product = s.classes.classes - at >= s.tile() ? whole.weight : rest.weight;
      product(b.in<float>(1) + at * s.rows, b.in<float>(0), b.out<float>(0) + (at - first) * s.in, false, b.workspace);
    }
  };
  return function_kernel(run, std::max(whole->scratch, rest->scratch));
}

}  // namespace neap::ops
