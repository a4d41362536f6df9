#include "core/bytes.h"
#include "ops/rnn/lstm_persistent.cuh"
#include "ops/rnn/lstm_persistent.h"

namespace neap::ops {
namespace {

using Forward = void (*)(SteadyForward);
using Backward = void (*)(SteadyBackward);

Forward forward_for(std::int64_t hidden) {
  return hidden == 1024 ? lstm_kernel<8> : hidden == 512 ? lstm_kernel<4> : lstm_kernel<2>;
}
Backward backward_for(std::int64_t hidden) {
  return hidden == 1024 ? lstm_grad_kernel<8> : hidden == 512 ? lstm_grad_kernel<4> : lstm_grad_kernel<2>;
}

// `attribute` must outlive the launch.
cudaLaunchConfig_t config_of(std::int64_t hidden, cudaLaunchAttribute* attribute, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(hidden / 8));
  config.blockDim = dim3(kSteadyThreads);
  config.dynamicSmemBytes = steady_shared_bytes(static_cast<int>(hidden));
  config.stream = stream;
  if (attribute != nullptr) {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = 4;
    attribute->val.clusterDim.y = 1;
    attribute->val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
  }
  return config;
}

template <class F>
void allow_shared_memory(F kernel, std::int64_t hidden) {
  NEAP_CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(steady_shared_bytes(static_cast<int>(hidden)))));
}

bool fits_card(std::int64_t hidden) {
  int major = 0;
  NEAP_CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major < 9 || CudaContext::get().multiprocessors() < hidden / 8) return false;
  allow_shared_memory(forward_for(hidden), hidden);
  allow_shared_memory(backward_for(hidden), hidden);
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = config_of(hidden, &attribute, nullptr);
  int clusters = 0;
  NEAP_CHECK_CUDA(cudaOccupancyMaxActiveClusters(&clusters, backward_for(hidden), &config));
  return clusters >= hidden / kSlice;
}

std::int64_t state_bytes(const ChunkShape& s) {
  return align_up(2 * s.batch * s.hidden * static_cast<std::int64_t>(sizeof(Bf16)), 256);
}

}  // namespace

bool fits_one_launch(const ChunkShape& s) {
  const bool is_size = s.hidden == 256 || s.hidden == 512 || s.hidden == 1024;
  return s.kind == CellKind::kLstm && is_size && s.batch <= kSteadyRows && s.steps > 1 && fits_card(s.hidden);
}

std::int64_t one_launch_bytes(const ChunkShape& s) { return state_bytes(s) + 256; }

void run_lstm(const ChunkShape& s, const ChunkForward& b, const float* by_input, std::byte* workspace,
              cudaStream_t stream) {
  auto* states = reinterpret_cast<Bf16*>(workspace);
  auto* met = reinterpret_cast<unsigned*>(workspace + state_bytes(s));
  NEAP_CHECK_CUDA(cudaMemsetAsync(met, 0, sizeof *met, stream));
  if (b.h0 != nullptr) {
    each("narrow", s.batch * s.hidden, stream,
         [states, h0 = b.h0] __device__(std::int64_t i) { states[i] = narrow<Bf16>(h0[i]); });
  }
  const SteadyForward t{.batch = static_cast<int>(s.batch),
                        .steps = static_cast<int>(s.steps),
                        .reverse = s.reverse,
                        .has_state = b.h0 != nullptr,
                        .w_hh = reinterpret_cast<const Bf16*>(b.w_hh),
                        .b_ih = b.b_ih,
                        .b_hh = b.b_hh,
                        .c0 = b.c0,
                        .by_input = by_input,
                        .gates = b.gates,
                        .h = b.h,
                        .c = b.c,
                        .h_last = b.h_last,
                        .c_last = b.c_last,
                        .states = states,
                        .met = met};
  const cudaLaunchConfig_t config = config_of(s.hidden, nullptr, stream);
  NEAP_CHECK_CUDA(cudaLaunchKernelEx(&config, forward_for(s.hidden), t));
}

void run_lstm_grad(const ChunkShape& s, const ChunkBackward& b, bool is_dh_narrow, void* slopes, std::byte* workspace,
                   cudaStream_t stream) {
  auto* met = reinterpret_cast<unsigned*>(workspace + state_bytes(s));
  NEAP_CHECK_CUDA(cudaMemsetAsync(met, 0, sizeof *met, stream));
  const SteadyBackward t{.batch = static_cast<int>(s.batch),
                         .steps = static_cast<int>(s.steps),
                         .reverse = s.reverse,
                         .w_hh = reinterpret_cast<const Bf16*>(b.w_hh),
                         .dh = is_dh_narrow ? nullptr : b.dh,
                         .narrow_dh = is_dh_narrow ? reinterpret_cast<const Bf16*>(b.dh) : nullptr,
                         .dh_last = b.dh_last,
                         .dc_last = b.dc_last,
                         .gates = b.gates,
                         .c = b.c,
                         .c0 = b.c0,
                         .slopes = static_cast<Bf16*>(slopes),
                         .dh0 = b.dh0,
                         .dc0 = b.dc0,
                         .met = met};
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = config_of(s.hidden, &attribute, stream);
  NEAP_CHECK_CUDA(cudaLaunchKernelEx(&config, backward_for(s.hidden), t));
}

}  // namespace neap::ops
