#include "observe/ceilings.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "observe/fma_simd.h"

namespace neap {
namespace {

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double measure_gflops() {
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    double operations = 0;
    volatile float sink = 0;
    const double seconds = seconds_of([&] {
#pragma omp parallel reduction(+ : operations)
      {
        double count = 0;
        sink = fma_table().run(400'000, &count);
        operations += count;
      }
    });
    best = std::max(best, operations / seconds * 1e-9);
  }
  return best;
}

double measure_copy() {
  const std::size_t bytes = 32 * static_cast<std::size_t>(kMiB);
  std::vector<std::byte> src(bytes, std::byte{1});
  std::vector<std::byte> dst(bytes);
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double seconds = seconds_of([&] {
#pragma omp parallel
      {
        const auto threads = static_cast<std::size_t>(omp_get_num_threads());
        const std::size_t share = bytes / threads;
        const std::size_t at = share * static_cast<std::size_t>(omp_get_thread_num());
        std::memcpy(dst.data() + at, src.data() + at, share);
      }
    });
    best = std::max(best, 2 * static_cast<double>(bytes) / seconds);
  }
  return best;
}

}  // namespace

const Ceilings& measure_ceilings() {
  static const Ceilings ceilings = {.gflops = measure_gflops(), .bytes_per_second = measure_copy()};
  return ceilings;
}

}  // namespace neap
