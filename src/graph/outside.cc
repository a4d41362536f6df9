#include "graph/outside.h"

#include <cstring>

namespace neap {
namespace {

// dst is dense over `sizes`; src has these strides, in elements of four bytes.
std::vector<std::byte> gathered(const std::byte* src, const Ints& sizes, const Ints& strides) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  std::vector<std::byte> out(static_cast<std::size_t>(count) * sizeof(float));
  auto* dst = reinterpret_cast<float*>(out.data());
  const std::int64_t inner = sizes.back();
  const std::int64_t step = strides.back();
  Ints index(sizes.size());
  for (std::int64_t row = 0; row < count; row += inner) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < index.size(); ++a) at += index[a] * strides[a];
    for (std::int64_t i = 0; i < inner; ++i) {
      std::memcpy(dst + row + i, src + (at + i * step) * static_cast<std::int64_t>(sizeof(float)), sizeof(float));
    }
    for (std::size_t a = index.size() - 1; a-- > 0 && ++index[a] == sizes[a];) index[a] = 0;
  }
  return out;
}

Ints dense(const Ints& sizes) {
  Ints strides(sizes.size(), 1);
  for (std::size_t a = sizes.size() - 1; a-- > 0;) strides[a] = strides[a + 1] * sizes[a + 1];
  return strides;
}

std::vector<std::byte> copied(const Tensor& tensor, const std::byte* src) { return {src, src + tensor.type.bytes()}; }

}  // namespace

TensorType outside_type(const Tensor& tensor) {
  TensorType out = tensor.type;
  for (std::size_t i = 0; i < tensor.outside_axes.size(); ++i) {
    out.shape[static_cast<int>(i)] = tensor.type.shape[tensor.outside_axes[i]];
  }
  return out;
}

std::vector<std::byte> to_outside(const Tensor& tensor, const std::byte* here) {
  if (tensor.outside_axes.empty() || tensor.type.elements() == 0) return copied(tensor, here);
  const Ints strides = dense(tensor.type.shape.sizes());
  Ints picked;
  for (const int axis : tensor.outside_axes) picked.push_back(strides[static_cast<std::size_t>(axis)]);
  return gathered(here, outside_type(tensor).shape.sizes(), picked);
}

std::vector<std::byte> from_outside(const Tensor& tensor, const std::byte* outside) {
  if (tensor.outside_axes.empty() || tensor.type.elements() == 0) return copied(tensor, outside);
  const Ints strides = dense(outside_type(tensor).shape.sizes());
  Ints picked(strides.size());
  for (std::size_t i = 0; i < strides.size(); ++i) {
    picked[static_cast<std::size_t>(tensor.outside_axes[i])] = strides[i];
  }
  return gathered(outside, tensor.type.shape.sizes(), picked);
}

}  // namespace neap
