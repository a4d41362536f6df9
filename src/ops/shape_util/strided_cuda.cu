#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/shape_util/strided_cuda.h"

namespace neap::ops {
namespace {

struct Ends {
  std::int64_t src, dst;
};

__device__ Ends ends_of(const StridedCopy& c, std::int64_t i) {
  Ends at{c.src_offset, c.dst_offset};
  for (int a = c.rank - 1; a >= 0; --a) {
    const std::int64_t index = i % c.size[a];
    i /= c.size[a];
    at.src += index * c.src[a];
    at.dst += index * c.dst[a];
  }
  return at;
}

std::int64_t count_of(const StridedCopy& c) {
  std::int64_t n = 1;
  for (int a = 0; a < c.rank; ++a) n *= c.size[a];
  return n;
}

template <class T>
void copy_as(const StridedCopy& c, const void* src, void* dst, cudaStream_t stream) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  each("strided_copy", count_of(c), stream, [=] __device__(std::int64_t i) {
    const Ends at = ends_of(c, i);
    to[at.dst] = from[at.src];
  });
}

}  // namespace

void copy_strided_cuda(const StridedCopy& c, const void* src, void* dst, cudaStream_t stream) {
  switch (c.element_bytes) {
    case 1: return copy_as<std::uint8_t>(c, src, dst, stream);
    case 2: return copy_as<std::uint16_t>(c, src, dst, stream);
    case 4: return copy_as<std::uint32_t>(c, src, dst, stream);
    default: return copy_as<std::uint64_t>(c, src, dst, stream);
  }
}

void add_strided_cuda(const StridedCopy& c, const float* src, float* dst, cudaStream_t stream) {
  each("strided_add", count_of(c), stream, [=] __device__(std::int64_t i) {
    const Ends at = ends_of(c, i);
    dst[at.dst] += src[at.src];
  });
}

// A part that was produced where it belongs is copied onto itself: no harm is done.
Prepared copy_cuda(CopyParts parts) {
  for (CopyPart& part : parts) part.copy = merged(part.copy);
  return cuda_kernel([parts = std::move(parts)](const Buffers& b, cudaStream_t stream) {
    for (const CopyPart& part : parts) {
      if (b.outputs[part.output] == nullptr) continue;
      const bool is_there =
          part.copy.rank <= 1 && b.inputs[part.input] + part.copy.src_offset * part.copy.element_bytes ==
                                     b.outputs[part.output] + part.copy.dst_offset * part.copy.element_bytes;
      if (is_there) continue;
      copy_strided_cuda(part.copy, b.inputs[part.input], b.outputs[part.output], stream);
    }
  });
}

Prepared copy_whole_cuda(const OpCall& call) {
  const auto bytes = static_cast<std::size_t>(call.in(0).bytes());
  return cuda_kernel([bytes](const Buffers& b, cudaStream_t stream) {
    NEAP_CHECK_CUDA(cudaMemcpyAsync(b.outputs[0], b.inputs[0], bytes, cudaMemcpyDeviceToDevice, stream));
  });
}

// `copy` puts dy among zeros, or adds it to the sum so far.
Prepared put_cuda(const StridedCopy& putting, std::int64_t whole_bytes, bool adds) {
  return cuda_kernel([c = merged(putting), adds, bytes = static_cast<std::size_t>(whole_bytes)](const Buffers& b,
                                                                                                cudaStream_t stream) {
    if (!adds) {
      NEAP_CHECK_CUDA(cudaMemsetAsync(b.outputs[0], 0, bytes, stream));
      return copy_strided_cuda(c, b.inputs[0], b.outputs[0], stream);
    }
    if (b.outputs[0] != b.inputs[1]) {
      NEAP_CHECK_CUDA(cudaMemcpyAsync(b.outputs[0], b.inputs[1], bytes, cudaMemcpyDeviceToDevice, stream));
    }
    add_strided_cuda(c, b.in<float>(0), b.out<float>(0), stream);
  });
}

}  // namespace neap::ops
