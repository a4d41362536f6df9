#include "ops/shape_util/strided.h"

#include <fmt/format.h>

#include <cstring>

#include "neap/error.h"

namespace neap::ops {
namespace {

bool is_empty(const StridedCopy& c) {
  for (int a = 0; a < c.rank; ++a) {
    if (c.size[a] == 0) return true;
  }
  return false;
}

// A part that was produced where it belongs (concat's inputs may be) needs no copy.
bool lies_in_place(const StridedCopy& c, const std::byte* src, const std::byte* dst) {
  const bool is_run = c.rank == 0 || (c.rank == 1 && c.src[0] == 1 && c.dst[0] == 1);
  return is_run && src + c.src_offset * c.element_bytes == dst + c.dst_offset * c.element_bytes;
}

}  // namespace

Ints dense_strides(const Ints& sizes) {
  Ints strides(sizes.size());
  std::int64_t n = 1;
  for (std::size_t a = sizes.size(); a-- > 0;) {
    strides[a] = n;
    n *= sizes[a];
  }
  return strides;
}

StridedCopy copy_from(const TensorType& type, const Ints& sizes, const Ints& src_strides) {
  if (sizes.size() > StridedCopy::kMaxRank) {
    throw UserError(fmt::format("{} axes are more than {}", sizes.size(), StridedCopy::kMaxRank));
  }
  StridedCopy c{.element_bytes = static_cast<int>(byte_size(type.dtype, 1)), .rank = static_cast<int>(sizes.size())};
  const Ints dense = dense_strides(sizes);
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    c.size[a] = sizes[a];
    c.src[a] = src_strides[a];
    c.dst[a] = dense[a];
  }
  return c;
}

StridedCopy merged(const StridedCopy& copy) {
  StridedCopy out = copy;
  out.rank = 0;
  for (int a = 0; a < copy.rank; ++a) {
    if (copy.size[a] == 1) continue;
    const int last = out.rank - 1;
    const bool is_joined =
        last >= 0 && out.src[last] == copy.src[a] * copy.size[a] && out.dst[last] == copy.dst[a] * copy.size[a];
    const int at = is_joined ? last : out.rank++;
    out.size[at] = is_joined ? out.size[at] * copy.size[a] : copy.size[a];
    out.src[at] = copy.src[a];
    out.dst[at] = copy.dst[a];
  }
  return out;
}

Prepared copy_simd(CopyParts parts) {
  for (CopyPart& part : parts) part.copy = merged(part.copy);
  return function_kernel([parts = std::move(parts)](const Buffers& b) {
    for (const CopyPart& part : parts) {
      const std::byte* src = b.inputs[part.input];
      std::byte* dst = b.outputs[part.output];
      if (dst == nullptr || is_empty(part.copy) || lies_in_place(part.copy, src, dst)) continue;
      strided_table().copy(part.copy, src, dst);
    }
  });
}

void copy_plainly(const StridedCopy& c, const std::byte* src, std::byte* dst) {
  if (is_empty(c)) return;
  Ints index(static_cast<std::size_t>(c.rank), 0);
  while (true) {
    std::int64_t from = c.src_offset;
    std::int64_t to = c.dst_offset;
    for (int a = 0; a < c.rank; ++a) {
      from += index[static_cast<std::size_t>(a)] * c.src[a];
      to += index[static_cast<std::size_t>(a)] * c.dst[a];
    }
    std::memmove(dst + to * c.element_bytes, src + from * c.element_bytes, static_cast<std::size_t>(c.element_bytes));
    int a = c.rank - 1;
    while (a >= 0 && ++index[static_cast<std::size_t>(a)] == c.size[a]) index[static_cast<std::size_t>(a--)] = 0;
    if (a < 0) return;
  }
}

Prepared copy_ref(CopyParts parts) {
  return function_kernel([parts = std::move(parts)](const Buffers& b) {
    for (const CopyPart& part : parts) {
      if (b.outputs[part.output] != nullptr) copy_plainly(part.copy, b.inputs[part.input], b.outputs[part.output]);
    }
  });
}

Prepared copy_whole(const OpCall& call) {
  const auto bytes = static_cast<std::size_t>(call.in(0).bytes());
  return function_kernel([bytes](const Buffers& b) { std::memmove(b.outputs[0], b.inputs[0], bytes); });
}

}  // namespace neap::ops
