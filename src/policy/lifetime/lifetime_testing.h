// Streams of steps for tests of lifetime predictors: a recurrent layer of `chunks` turns, forward and back, in which a
// chunk's tensor lives until the mirrored turn of backward.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/lifetime/recording.h"

namespace neap {

// Two tensors a chunk in forward, one kept and one that the next chunk reads; one a chunk in backward. `slack`: further
// instructions between forward and backward.
inline RecordedStep recurrent_step(std::uint32_t chunks, std::uint32_t slack = 2) {
  RecordedStep out;
  const std::uint32_t ticks = 2 * chunks + slack;
  const auto add = [&](std::uint32_t site, std::uint8_t phase, std::uint32_t tick, std::uint32_t lifespan) {
    out.events.push_back({.site = site,
                          .layer = 100 + site,
                          .op = 200U + phase,
                          .phase = phase,
                          .bytes = 4096 * site,
                          .tick = tick,
                          .ticks = ticks,
                          .length = 16 * std::int64_t{chunks}});
    out.lifespans.push_back(lifespan);
  };
  for (std::uint32_t k = 0; k < chunks; ++k) {
    add(1, 0, k, ticks - 2 * k);
    add(2, 0, k, 2);
  }
  for (std::uint32_t k = 0; k < chunks; ++k) add(3, 1, chunks + slack + k, k + 1 < chunks ? 2 : 1);
  return out;
}

}  // namespace neap
