#include "precision/codec.h"

#include <cstring>

#include "core/random.h"
#include "precision/codec_simd.h"

namespace neap::precision {
namespace {

// Sets this use of the seed apart from all others.
constexpr std::uint64_t kPurpose = 0x636F646563ULL;

void copy(const void* src, std::int64_t bytes, void* dst) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 16;
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dst);
  const std::int64_t blocks = (bytes + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock;
    std::memcpy(to + first, from + first, static_cast<std::size_t>(bytes - first < kBlock ? bytes - first : kBlock));
  }
}

std::uint8_t* raw(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }
const std::uint8_t* raw(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }

}  // namespace

std::uint64_t philox_key(const CodecKey& key) { return mix(mix(mix(kPurpose, key.seed), key.step), key.tensor); }

unsigned encode(Level level, const float* src, std::int64_t elements, const CodecKey& key, std::byte* payload,
                std::byte* history) {
  const CodecTable& table = codec_table();
  switch (level) {
    case Level::kFp32: copy(src, elements * 4, payload); return kClean;
    case Level::kFp16: return table.fp16(src, elements, raw(payload));
    case Level::kBf16: return table.bf16(src, elements, raw(payload));
    default: break;
  }
  const std::size_t place = index_of(level) - index_of(Level::kInt8);
  const auto run = key.rounding == Rounding::kStochastic ? table.stochastic[place] : table.nearest[place];
  return run(src, elements, philox_key(key), raw(payload), raw(history));
}

void decode(Level level, const std::byte* payload, const std::byte* history, std::int64_t elements, float* dst) {
  if (level == Level::kFp32) {
    copy(payload, elements * 4, dst);
  } else {
    codec_table().decode[index_of(level)](raw(payload), raw(history), elements, dst);
  }
}

unsigned encode(Level level, const float* src, std::int64_t elements, const CodecKey& key, std::byte* dst) {
  return encode(level, src, elements, key, dst, dst + history_offset(level, elements));
}

void decode(Level level, const std::byte* src, std::int64_t elements, float* dst) {
  decode(level, src, src + history_offset(level, elements), elements, dst);
}

}  // namespace neap::precision
