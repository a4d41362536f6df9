// What lstm_chunk, gru_chunk and rnn_chunk share: places of inputs and outputs, shapes, gradient, kernels.
#pragma once

#include "ops/kernel.h"
#include "recurrent/chunk.h"

namespace neap::ops {

// Of a chunk: x [steps, batch, input], weights and biases as torch has them, lengths i32 [batch], states [batch,
// hidden]. Attributes: "reverse" (0), "start" (0), and "activation" ("tanh" or "relu") of rnn_chunk. These change no
// bit: "unroll" (0: all), steps that workspace is booked for, and "gates" ("keep"), or "recompute" for backward. With
// "gates" = "cudnn" an LSTM's chunk is cuDNN's, bits and all: it keeps nothing, and backward runs it again.
struct ChunkIn {
  enum : std::size_t { kX, kWIh, kWHh, kBIh, kBHh, kLengths, kH0, kC0 };  // all from kBIh on may be left out
};
// Without a gradient only h is needed. rnn_chunk ends with kHLast, gru_chunk with kGates.
struct ChunkOut {
  enum : std::size_t { kH, kHLast, kGates, kC, kCLast };
};
// Of the chunk's gradient. The sums so far of the weights' gradients are added to in place.
struct ChunkGradIn {
  enum : std::size_t {
    kDh,
    kDhLast,
    kX,
    kWIh,
    kWHh,
    kLengths,
    kH0,
    kH,
    kDWIh,
    kDWHh,
    kDBIh,
    kDBHh,
    kGates,
    kC,
    kC0,
    kDcLast,
    kBIh,  // the biases: only without gates, which are then made again
    kBHh
  };
};
struct ChunkGradOut {
  enum : std::size_t { kDWIh, kDWHh, kDBIh, kDBHh, kDx, kDh0, kDc0 };
};

inline constexpr InOut kChunkGradInPlace[] = {{ChunkGradIn::kDWIh, ChunkGradOut::kDWIh},
                                              {ChunkGradIn::kDWHh, ChunkGradOut::kDWHh},
                                              {ChunkGradIn::kDBIh, ChunkGradOut::kDBIh},
                                              {ChunkGradIn::kDBHh, ChunkGradOut::kDBHh}};

enum class ChunkFamily : std::uint8_t { kLstm, kGru, kRnn };

Types infer_chunk(ChunkFamily family, const OpCall& call);
Types infer_chunk_grad(ChunkFamily family, const OpCall& call);
// One node `grad_op`.
Values chunk_gradient(ChunkFamily family, std::string_view grad_op, GradientCall& c);
Prepared chunk_simd(ChunkFamily family, const OpCall& call);
Prepared chunk_ref(ChunkFamily family, const OpCall& call);
Prepared chunk_grad_simd(ChunkFamily family, const OpCall& call);
Prepared chunk_grad_ref(ChunkFamily family, const OpCall& call);
struct ChunkGradTypes {
  DType products = DType::kF32;           // of x and the weights
  bool is_dh_narrow = false;              // dh is bf16, as a product behind the layer may leave it
  bool adds_ih = false, adds_hh = false;  // the sums so far of the weights' gradients are given
};
// Null in a program without CUDA, as oneDNN's kernels may be. `type` of x and the weights.
[[gnu::weak]] Prepared chunk_cuda(const ChunkShape& shape, DType type);
[[gnu::weak]] Prepared chunk_grad_cuda(const ChunkShape& shape, const ChunkGradTypes& types);
// By cuDNN's own LSTM (lstm/lstm_cudnn.cc), f32.
[[gnu::weak]] Prepared lstm_cudnn(const ChunkShape& shape);
[[gnu::weak]] Prepared lstm_grad_cudnn(const ChunkShape& shape);
Prepared chunk_on_cudnn(ChunkFamily family, const OpCall& call);
Prepared chunk_grad_on_cudnn(ChunkFamily family, const OpCall& call);
Prepared chunk_on_cuda(ChunkFamily family, const OpCall& call);
Prepared chunk_grad_on_cuda(ChunkFamily family, const OpCall& call);
ChunkForward chunk_forward_buffers(const Buffers& b);
ChunkBackward chunk_backward_buffers(const Buffers& b);
double chunk_flops(ChunkFamily family, const OpCall& call);
double chunk_grad_flops(ChunkFamily family, const OpCall& call);

template <ChunkFamily kFamily>
struct ChunkOps {
  static Types infer(const OpCall& call) { return infer_chunk(kFamily, call); }
  static Types infer_grad(const OpCall& call) { return infer_chunk_grad(kFamily, call); }
  static Prepared simd(const OpCall& call) { return chunk_simd(kFamily, call); }
  static Prepared ref(const OpCall& call) { return chunk_ref(kFamily, call); }
  static Prepared simd_grad(const OpCall& call) { return chunk_grad_simd(kFamily, call); }
  static Prepared ref_grad(const OpCall& call) { return chunk_grad_ref(kFamily, call); }
  static Prepared cudnn(const OpCall& call) { return chunk_on_cudnn(kFamily, call); }
  static Prepared cudnn_grad(const OpCall& call) { return chunk_grad_on_cudnn(kFamily, call); }
  static Prepared cuda(const OpCall& call) { return chunk_on_cuda(kFamily, call); }
  static Prepared cuda_grad(const OpCall& call) { return chunk_grad_on_cuda(kFamily, call); }
  static double flops(const OpCall& call) { return chunk_flops(kFamily, call); }
  static double grad_flops(const OpCall& call) { return chunk_grad_flops(kFamily, call); }

  static constexpr KernelEntry kForward[] = {{"cudnn", DeviceKind::kCuda, cudnn},
                                             {"cuda", DeviceKind::kCuda, cuda, true},
                                             {"simd", DeviceKind::kCpu, simd, true},
                                             {"ref", DeviceKind::kCpu, ref}};
  static constexpr KernelEntry kBackward[] = {{"cudnn", DeviceKind::kCuda, cudnn_grad},
                                              {"cuda", DeviceKind::kCuda, cuda_grad, true},
                                              {"simd", DeviceKind::kCpu, simd_grad, true},
                                              {"ref", DeviceKind::kCpu, ref_grad}};

  static constexpr OpDef forward(std::string_view name, Values (*gradient)(GradientCall&)) {
    return {.name = name,
            .infer = infer,
            .gradient = gradient,
            .kernels = kForward,
            .kernel_count = std::size(kForward),
            .flops = flops,
            .optional_outputs = ~1U};
  }
  static constexpr OpDef backward(std::string_view name) {
    return {.name = name,
            .infer = infer_grad,
            .kernels = kBackward,
            .kernel_count = std::size(kBackward),
            .flops = grad_flops,
            .in_place = kChunkGradInPlace,
            .optional_outputs = ~0U};
  }
};

}  // namespace neap::ops
