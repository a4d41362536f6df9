// Statistics and normalisation of the columns of images [images, rows, c]: what batch norm (one image of all pixels)
// and group norm (an image each) share.
#pragma once

#include "ops/batch_norm/columns_simd.h"

namespace neap::ops {

// The partition depends on the shape alone, so that sums do not depend on the number of threads.
Columns columns_of(std::int64_t images, std::int64_t rows, std::int64_t c);

// Bytes of the partial sums that moments() and sums() write.
std::int64_t partial_bytes(const Columns& columns);

}  // namespace neap::ops
