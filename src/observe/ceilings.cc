#include "observe/ceilings.h"

#include <omp.h>
#include <unistd.h>

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

// Each thread copies its part of `bytes`, `rounds` times over.
double copy_rate(std::size_t bytes, int rounds) {
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
        for (int i = 0; i < rounds; ++i) std::memcpy(dst.data() + at, src.data() + at, share);
      }
    });
    best = std::max(best, 2.0 * static_cast<double>(rounds) * static_cast<double>(bytes) / seconds);
  }
  return best;
}

// Source and destination together take half of the cache, so that nothing else drives them out.
std::vector<CacheCeiling> measure_caches() {
  const auto threads = static_cast<std::int64_t>(omp_get_max_threads());
  std::vector<CacheCeiling> out;
  const auto add = [&](const char* name, int key, bool is_shared) {
    const std::int64_t each = sysconf(key);
    if (each <= 0) return;
    // The system may tell the sum over a socket, of which a core reaches a part.
    const std::int64_t bytes = is_shared ? std::min(each, 32 * kMiB) : each * threads;
    if (!out.empty() && bytes <= out.back().bytes) return;
    constexpr std::int64_t kCopied = 64 * kMiB;
    const int rounds = static_cast<int>(std::max<std::int64_t>(1, kCopied / bytes));
    out.push_back({name, bytes, copy_rate(static_cast<std::size_t>(bytes / 4), rounds)});
  };
  add("L1", _SC_LEVEL1_DCACHE_SIZE, false);
  add("L2", _SC_LEVEL2_CACHE_SIZE, false);
  add("L3", _SC_LEVEL3_CACHE_SIZE, true);
  return out;
}

}  // namespace

const Ceilings& measure_ceilings() {
  static const Ceilings ceilings = {.gflops = measure_gflops(),
                                    .bytes_per_second = copy_rate(32 * static_cast<std::size_t>(kMiB), 1),
                                    .caches = measure_caches()};
  return ceilings;
}

const Ceilings& ceilings_of(DeviceKind kind) {
  return kind == DeviceKind::kCuda && cuda_ceilings != nullptr ? cuda_ceilings() : measure_ceilings();
}

}  // namespace neap
