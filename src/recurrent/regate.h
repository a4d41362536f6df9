// The gates of a piece, made again for backward.
#pragma once

#include "recurrent/chunk.h"
#include "recurrent/gear.h"

namespace neap {

// Bytes for pieces of the longest kind.
std::size_t regate_scratch(const ChunkShape& shape, int threads);

// To gates [steps of the piece, batch, 4 * hidden], in the order of time from `lowest` on, the bits that forward had.
// `h_prev`: with lengths, the states before the piece's steps in that order; null: they lie in h.
void regate(const ChunkShape& shape, const ChunkBackward& b, const Piece& piece, std::int64_t lowest,
            const float* h_prev, float* gates, float* scratch);

}  // namespace neap
