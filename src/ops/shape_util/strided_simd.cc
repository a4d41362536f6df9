#include "ops/shape_util/strided_simd.h"

#include <utility>

#include "device/cpu/vmath_vector.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kPiece = 1 << 15;  // bytes of a long run that one thread takes at a time

// Offsets of the axes [0, axes) at a flat index.
struct Place {
  std::int64_t src;
  std::int64_t dst;
};

Place place(const StridedCopy& c, int axes, std::int64_t index) {
  Place p = {c.src_offset, c.dst_offset};
  for (int a = axes - 1; a >= 0; --a) {
    const std::int64_t i = index % c.size[a];
    index /= c.size[a];
    p.src += i * c.src[a];
    p.dst += i * c.dst[a];
  }
  return p;
}

// Goes through the axes [0, axes) in order, from a flat index on.
class Walk {
 public:
  Walk(const StridedCopy& c, int axes, std::int64_t index) : c_(c), axes_(axes), at_(place(c, axes, index)) {
    for (int a = axes - 1; a >= 0; --a) {
      left_[a] = c.size[a] - index % c.size[a];
      index /= c.size[a];
    }
  }
  Place at() const { return at_; }
  void next() {
    for (int a = axes_ - 1; a >= 0; --a) {
      at_.src += c_.src[a];
      at_.dst += c_.dst[a];
      if (--left_[a] > 0) return;
      left_[a] = c_.size[a];
      at_.src -= c_.size[a] * c_.src[a];
      at_.dst -= c_.size[a] * c_.dst[a];
    }
  }

 private:
  const StridedCopy& c_;
  int axes_;
  Place at_;
  std::int64_t left_[StridedCopy::kMaxRank];
};

std::int64_t count(const StridedCopy& c, int axes) {
  std::int64_t n = 1;
  for (int a = 0; a < axes; ++a) n *= c.size[a];
  return n;
}

void copy_bytes(const char* src, char* dst, std::int64_t n) {
  constexpr std::int64_t kVector = 4 * kLanes;
  if (n > 1024) {
    __builtin_memcpy(dst, src, static_cast<std::size_t>(n));
    return;
  }
  std::int64_t i = 0;
  for (; i + kVector <= n; i += kVector) {
    vu v;
    __builtin_memcpy(&v, src + i, kVector);
    __builtin_memcpy(dst + i, &v, kVector);
  }
  for (; i < n; ++i) dst[i] = src[i];
}

// body(src, dst, n) for all runs of contiguous elements; long ones are cut so that every thread has work.
template <class Body>
void for_runs(const StridedCopy& c, Body body) {
  const bool is_dense = c.rank > 0 && c.dst[c.rank - 1] == 1;
  const int outer = is_dense ? c.rank - 1 : c.rank;
  const std::int64_t run = is_dense ? c.size[c.rank - 1] : 1;
  const std::int64_t piece = kPiece / c.element_bytes;
  const std::int64_t pieces = (run + piece - 1) / piece;
  const std::int64_t batch = run < piece ? (piece + run - 1) / run : 1;  // short runs that one thread takes at a time
  const std::int64_t runs = count(c, outer);
  const std::int64_t units = (runs + batch - 1) / batch * pieces;
#pragma omp parallel for schedule(static) if (units > 1)
  for (std::int64_t u = 0; u < units; ++u) {
    const std::int64_t from = u % pieces * piece;
    const std::int64_t n = run - from < piece ? run - from : piece;
    const std::int64_t first = u / pieces * batch;
    const std::int64_t last = first + batch < runs ? first + batch : runs;
    Walk walk(c, outer, first);
    for (std::int64_t r = first; r < last; ++r, walk.next()) body(walk.at().src + from, walk.at().dst + from, n);
  }
}

void copy_runs(const StridedCopy& c, const char* src, char* dst) {
  const std::int64_t w = c.element_bytes;
  for_runs(c, [=](std::int64_t s, std::int64_t d, std::int64_t n) { copy_bytes(src + s * w, dst + d * w, n * w); });
}

void zero(const StridedCopy& c, void* dst) {
  const std::int64_t w = c.element_bytes;
  char* to = static_cast<char*>(dst);
  for_runs(c, [=](std::int64_t, std::int64_t d, std::int64_t n) {
    __builtin_memset(to + d * w, 0, static_cast<std::size_t>(n * w));
  });
}

// One element after the other along the innermost axis, whatever its strides.
template <class T>
void copy_elements(const StridedCopy& c, const T* src, T* dst) {
  const int last = c.rank - 1;
  const std::int64_t n = c.size[last];
  const std::int64_t from = c.src[last];
  const std::int64_t to = c.dst[last];
  const std::int64_t rows = count(c, last);
#pragma omp parallel for schedule(static) if (rows * n > 8192)
  for (std::int64_t r = 0; r < rows; ++r) {
    const Place p = place(c, last, r);
    const T* s = src + p.src;
    T* d = dst + p.dst;
    if (from == 0 && to == 1) {
      const T value = *s;
      for (std::int64_t i = 0; i < n; ++i) d[i] = value;
    } else {
      for (std::int64_t i = 0; i < n; ++i) d[i * to] = s[i * from];
    }
  }
}

// A square of kSide x kSide elements, one vector a row, transposed in registers: log2(kSide) rounds, each of which
// interleaves row i with row i + kSide/2. A round rotates the bits of (row, lane) by one place.
template <class T, int kSide>
struct Square {
  typedef T V __attribute__((vector_size(sizeof(T) * kSide)));

  template <int... I>
  NEAP_VM static V low_halves(V a, V b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (I / 2 + I % 2 * kSide)...);
  }
  template <int... I>
  NEAP_VM static V high_halves(V a, V b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, (kSide / 2 + I / 2 + I % 2 * kSide)...);
  }

  NEAP_VM static void transpose(const T* src, std::int64_t src_stride, T* dst, std::int64_t dst_stride) {
    constexpr auto kLanesOf = std::make_integer_sequence<int, kSide>();
    V rows[kSide];
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) __builtin_memcpy(&rows[i], src + i * src_stride, sizeof(V));
#pragma GCC unroll 4
    for (int round = 1; round < kSide; round *= 2) {
      V next[kSide];
#pragma GCC unroll 8
      for (int i = 0; i < kSide / 2; ++i) {
        next[2 * i] = low_halves(rows[i], rows[i + kSide / 2], kLanesOf);
        next[2 * i + 1] = high_halves(rows[i], rows[i + kSide / 2], kLanesOf);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) rows[i] = next[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSide; ++i) __builtin_memcpy(dst + i * dst_stride, &rows[i], sizeof(V));
  }
};

// A square whose rows are whole cache lines, moved through local memory: rows that lie a power of two apart push each
// other out of the cache before a line of small elements is full.
template <class T, int kSide>
struct Lines {
  static constexpr int kBlock = kSide * sizeof(T) < 64 && sizeof(T) < 4 ? 64 / static_cast<int>(sizeof(T)) : kSide;

  NEAP_VM static void transpose(const T* src, std::int64_t src_stride, T* dst, std::int64_t dst_stride) {
    if constexpr (kBlock == kSide) {
      Square<T, kSide>::transpose(src, src_stride, dst, dst_stride);
    } else {
      alignas(64) T in[kBlock * kBlock];
      alignas(64) T out[kBlock * kBlock];
      for (int i = 0; i < kBlock; ++i) __builtin_memcpy(in + i * kBlock, src + i * src_stride, 64);
      for (int i = 0; i < kBlock; i += kSide) {
        for (int j = 0; j < kBlock; j += kSide) {
          Square<T, kSide>::transpose(in + i * kBlock + j, kBlock, out + j * kBlock + i, kBlock);
        }
      }
      for (int i = 0; i < kBlock; ++i) __builtin_memcpy(dst + i * dst_stride, out + i * kBlock, 64);
    }
  }
};

// dst[i * dst_stride + j] = src[j * src_stride + i] for i < across, j < along.
template <class T, int kSide>
NEAP_VM void transpose_block(const T* src, std::int64_t src_stride, T* dst, std::int64_t dst_stride,
                             std::int64_t across, std::int64_t along) {
  constexpr int kStep = Lines<T, kSide>::kBlock;
  std::int64_t j = 0;
  for (; j + kStep <= along; j += kStep) {
    std::int64_t i = 0;
    for (; i + kStep <= across; i += kStep) {
      Lines<T, kSide>::transpose(src + j * src_stride + i, src_stride, dst + i * dst_stride + j, dst_stride);
    }
    for (; i < across; ++i) {
      for (std::int64_t k = j; k < j + kStep; ++k) dst[i * dst_stride + k] = src[k * src_stride + i];
    }
  }
  for (std::int64_t i = 0; i < across && j < along; ++i) {
    for (std::int64_t k = j; k < along; ++k) dst[i * dst_stride + k] = src[k * src_stride + i];
  }
}

// The innermost axis is contiguous in dst, axis `across` is contiguous in src.
template <class T, int kSide>
void transpose_axes(const StridedCopy& c, int across, const T* src, T* dst) {
  constexpr std::int64_t kAcross = 256 / sizeof(T);  // whole cache lines on both sides
  constexpr std::int64_t kAlong = 1024;
  StridedCopy outer = c;
  outer.rank = 0;
  for (int a = 0; a < c.rank - 1; ++a) {
    if (a == across) continue;
    outer.size[outer.rank] = c.size[a];
    outer.src[outer.rank] = c.src[a];
    outer.dst[outer.rank++] = c.dst[a];
  }
  const int last = c.rank - 1;
  const std::int64_t wide = (c.size[across] + kAcross - 1) / kAcross;
  const std::int64_t deep = (c.size[last] + kAlong - 1) / kAlong;
  const std::int64_t units = count(outer, outer.rank) * wide * deep;
#pragma omp parallel for schedule(static) if (units > 1)
  for (std::int64_t u = 0; u < units; ++u) {
    const Place p = place(outer, outer.rank, u / (wide * deep));
    const std::int64_t i = u / deep % wide * kAcross;
    const std::int64_t j = u % deep * kAlong;
    const std::int64_t rows = c.size[across] - i < kAcross ? c.size[across] - i : kAcross;
    const std::int64_t columns = c.size[last] - j < kAlong ? c.size[last] - j : kAlong;
    transpose_block<T, kSide>(src + p.src + j * c.src[last] + i, c.src[last], dst + p.dst + i * c.dst[across] + j,
                              c.dst[across], rows, columns);
  }
}

int contiguous_in_src(const StridedCopy& c) {
  for (int a = c.rank - 2; a >= 0; --a) {
    if (c.src[a] == 1) return a;
  }
  return -1;
}

template <class T, int kSide>
void copy_as(const StridedCopy& c, const void* src, void* dst) {
  const int last = c.rank - 1;
  const int across = c.dst[last] == 1 ? contiguous_in_src(c) : -1;
  if (across >= 0) {
    transpose_axes<T, kSide>(c, across, static_cast<const T*>(src), static_cast<T*>(dst));
  } else {
    copy_elements(c, static_cast<const T*>(src), static_cast<T*>(dst));
  }
}

void copy(const StridedCopy& c, const void* src, void* dst) {
  const int last = c.rank - 1;
  if (c.rank == 0 || (c.src[last] == 1 && c.dst[last] == 1)) {
    copy_runs(c, static_cast<const char*>(src), static_cast<char*>(dst));
  } else if (c.element_bytes == 1) {
    copy_as<std::uint8_t, 16>(c, src, dst);
  } else if (c.element_bytes == 2) {
    copy_as<std::uint16_t, 8>(c, src, dst);
  } else if (c.element_bytes == 4) {
    copy_as<std::uint32_t, kLanes>(c, src, dst);
  } else {
    copy_as<std::uint64_t, (kLanes > 8 ? 8 : kLanes / 2)>(c, src, dst);
  }
}

void add(const StridedCopy& c, const float* src, float* dst) {
  const int last = c.rank - 1;
  const std::int64_t n = c.rank == 0 ? 1 : c.size[last];
  const std::int64_t from = c.rank == 0 ? 1 : c.src[last];
  const std::int64_t to = c.rank == 0 ? 1 : c.dst[last];
  const std::int64_t rows = c.rank == 0 ? 1 : count(c, last);
  const std::int64_t piece = kPiece / 4;
  const std::int64_t pieces = (n + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (rows * n > 8192)
  for (std::int64_t u = 0; u < rows * pieces; ++u) {
    const Place p = place(c, last < 0 ? 0 : last, u / pieces);
    const std::int64_t first = u % pieces * piece;
    const std::int64_t end = n - first < piece ? n : first + piece;
    const float* s = src + p.src;
    float* d = dst + p.dst;
    if (from == 1 && to == 1) {
      for (std::int64_t i = first; i < end; ++i) d[i] += s[i];
    } else {
      for (std::int64_t i = first; i < end; ++i) d[i * to] += s[i * from];
    }
  }
}

}  // namespace

const StridedTable& strided_table() {
  static constexpr StridedTable kTable = {copy, zero, add};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
