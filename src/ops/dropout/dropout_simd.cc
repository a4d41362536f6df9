#include "ops/dropout/dropout_simd.h"

#include "device/cpu/vmath.h"
#include "ops/elementwise/blocks.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kDraw = 4 * kLanes;  // words of one call of vphilox
constexpr std::int64_t kPiece = 512;
static_assert(kPiece % kDraw == 0 && kBlock % kPiece == 0);

// Numbers in [0, 1) of elements `index` to `index + kPiece`, where index is a multiple of 4.
NEAP_VM void draw(std::uint64_t key, std::uint64_t index, float* units) {
  for (std::int64_t i = 0; i < kPiece; i += kDraw) {
    const RandomWords words = in_stream_order(vphilox(key, index / 4 + static_cast<std::uint64_t>(i / 4), 0));
    for (int v = 0; v < 4; ++v) vstore(units + i + v * kLanes, vunit_float(words.word[v]));
  }
}

void run(const float* src, float* dst, std::int64_t n, DropoutArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    float units[kPiece + kDraw];
    for (std::int64_t i = 0; i < count; i += kPiece) {
      const std::uint64_t index = args.index + static_cast<std::uint64_t>(first + i);
      const std::uint64_t skip = index % 4;
      draw(args.key, index - skip, units);
      if (skip != 0) {  // the last few elements of the piece belong to one counter more
        const RandomWords words = in_stream_order(vphilox(args.key, (index - skip + kPiece) / 4, 0));
        vstore(units + kPiece, vunit_float(words.word[0]));
      }
      const float* x = src + first + i;
      float* y = dst + first + i;
      const std::int64_t piece = count - i < kPiece ? count - i : kPiece;
#pragma GCC ivdep
      for (std::int64_t k = 0; k < piece; ++k) {
        const float kept = x[k] * args.scale;
        y[k] = units[skip + static_cast<std::uint64_t>(k)] < args.p ? 0.0F : kept;
      }
    }
  });
}

}  // namespace

const DropoutTable& dropout_table() {
  static constexpr DropoutTable kTable = {run};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
