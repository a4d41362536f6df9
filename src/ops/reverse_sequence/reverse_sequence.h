// Which step comes where, the same on every device.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

struct Reversal {
  std::int64_t steps, batch, run;  // run: elements of one step of one batch element
  bool time_first, wide;

  constexpr bool fits(std::int64_t length) const { return length >= 0 && length <= steps; }
  // First element of step t of batch element i.
  constexpr std::int64_t at(std::int64_t t, std::int64_t i) const {
    return (time_first ? t * batch + i : i * steps + t) * run;
  }
  // The step that comes to the place of step t.
  static constexpr std::int64_t source(std::int64_t t, std::int64_t length) { return t < length ? length - 1 - t : t; }
};

// Elements of `bytes` bytes.
[[gnu::weak]] Prepared reverse_sequence_cuda(const Reversal& reversal, std::int64_t bytes);

}  // namespace neap::ops
