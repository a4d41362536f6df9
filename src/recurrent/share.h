// Who computes what of a chunk's steps, and where its workspace lies.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "device/cpu/gemm.h"
#include "recurrent/cell_simd.h"
#include "recurrent/chunk.h"

namespace neap {

// Thread `thread`'s block of a step: units in whole panels of the packed weights; rows too where there are more threads
// than panels. The cut changes no bit.
inline CellBlock share_of(int thread, int threads, std::int64_t batch, std::int64_t hidden) {
  const std::int64_t panels = (hidden + kGemmPanel - 1) / kGemmPanel;
  const std::int64_t columns = std::min<std::int64_t>(threads, panels);
  const std::int64_t rows = std::min<std::int64_t>(threads / columns, batch);
  CellBlock block{.hidden = hidden};
  if (thread >= columns * rows) return block;
  const std::int64_t c = thread % columns;
  const std::int64_t r = thread / columns;
  block.unit = std::min(hidden, panels * c / columns * kGemmPanel);
  block.unit_end = std::min(hidden, panels * (c + 1) / columns * kGemmPanel);
  block.row = batch * r / rows;
  block.row_end = batch * (r + 1) / rows;
  return block;
}

// Threads for steps of so many multiplications: all, unless waiting for one another would cost more than it gains.
// (A number between would make OpenMP end and start threads.)
inline int step_threads(std::int64_t multiplications, int most) { return multiplications < 100000 ? 1 : most; }

// Where the threads of a parallel region wait for one another between steps. OpenMP's own barrier spins for
// milliseconds before it gives the core away; on a machine with other work to do, the thread waited for may need just
// that core.
class StepBarrier {
 public:
  void wait(int threads) {
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins < kSpins) {
        __builtin_ia32_pause();
      } else {
        sched_yield();
      }
    }
  }

 private:
  static constexpr int kSpins = 1000;  // tens of microseconds
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
};

// x or a weight, from element `at` on.
inline GemmOperand given_operand(const ChunkShape& s, const float* data, std::int64_t at, std::int64_t ld,
                                 bool transposed = false) {
  GemmOperand out = {data, ld, transposed, s.is_bf16};
  out.data = gemm_element(out, at);
  return out;
}

// Lays arrays out behind each other; with a null base, only counts.
class Space {
 public:
  explicit Space(std::byte* base) : base_(base) {}
  float* floats(std::int64_t n) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += align_up(n * static_cast<std::int64_t>(sizeof(float)));
    most_ = std::max(most_, used_);
    return reinterpret_cast<float*>(at);
  }
  std::int64_t mark() const { return used_; }
  void back_to(std::int64_t mark) { used_ = mark; }  // what follows shares memory with what was laid out since
  std::int64_t bytes() const { return most_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
  std::int64_t most_ = 0;
};

}  // namespace neap
