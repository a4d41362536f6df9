// LSTM chunks of bf16 in one launch each (lstm_persistent.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include "recurrent/chunk.h"

namespace neap::ops {

// The blocks wait for each other, so all of them must be on the card at once. Hidden sizes of 256, 512 and 1024, up to
// 64 rows. A function of shape and card alone.
bool fits_one_launch(const ChunkShape& shape);

// Bytes of a workspace that begins at a multiple of 256: the state on its way from step to step, and a counter.
std::int64_t one_launch_bytes(const ChunkShape& shape);

// x's products, without biases, are in `by_input` [steps, batch, 4 * hidden].
void run_lstm(const ChunkShape& shape, const ChunkForward& b, const float* by_input, std::byte* workspace,
              cudaStream_t stream);
// The gradients of the sums go to `slopes`, bf16 [steps, batch, 4 * hidden]. `is_dh_narrow`: b.dh is bf16.
void run_lstm_grad(const ChunkShape& shape, const ChunkBackward& b, bool is_dh_narrow, void* slopes,
                   std::byte* workspace, cudaStream_t stream);

}  // namespace neap::ops
