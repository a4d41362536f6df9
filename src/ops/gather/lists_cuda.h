// Lists of what belongs to each row, behind each other in one array.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace neap::ops {

// From how many each of `rows` rows has (`cursor`): where its list begins, in `cursor` and in `begin`, which has one
// place more for the end of the last. Both aligned to 16 bytes.
void list_begins_cuda(std::int64_t rows, int* begin, int* cursor, cudaStream_t stream);

}  // namespace neap::ops
