// Times the codecs and the statistics of saved tensors beside memcpy of the same floats over the same threads. bytes/s
// are bytes of floats encoded, decoded or read, so they compare with memcpy's directly.
//   OMP_NUM_THREADS=2 build/bench/codec_bench [--benchmark_filter=int8] [--benchmark_repetitions=5]
// NEAP_ISA=base|v3 times the other builds.
#include <benchmark/benchmark.h>
#include <omp.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "core/random.h"
#include "precision/codec.h"
#include "precision/statistics.h"

namespace {

using neap::precision::Level;

// In huge pages, as the arena is.
class Block {
 public:
  explicit Block(std::int64_t bytes) {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    const std::size_t size = (static_cast<std::size_t>(bytes) / kPage + 1) * kPage;
    data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
    if (data_ == nullptr) throw std::bad_alloc();
    madvise(data_, size, MADV_HUGEPAGE);
    std::memset(data_, 0, size);
  }
  ~Block() { std::free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* get() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* data_;
};

void fill(float* x, std::int64_t n) {
  neap::RandomStream random(1);
  float table[4096];
  for (float& v : table) v = static_cast<float>(random.normal());
  for (std::int64_t i = 0; i < n; ++i) x[i] = table[random.next() % 4096];
}

void report(benchmark::State& state, std::int64_t elements) {
  state.SetBytesProcessed(state.iterations() * elements * 4);
}

void copy(benchmark::State& state) {
  const std::int64_t bytes = state.range(0) * 4;
  const Block from(bytes), to(bytes);
  for (auto _ : state) {
#pragma omp parallel
    {
      const std::int64_t threads = omp_get_num_threads();
      const std::int64_t first = bytes * omp_get_thread_num() / threads;
      const std::int64_t last = bytes * (omp_get_thread_num() + 1) / threads;
      std::memcpy(to.get() + first, from.get() + first, static_cast<std::size_t>(last - first));
    }
    benchmark::ClobberMemory();
  }
  report(state, state.range(0));
}

void encode(benchmark::State& state, Level level, neap::precision::Rounding rounding) {
  const std::int64_t n = state.range(0);
  const Block src(n * 4), dst(neap::precision::encoded_bytes(level, n));
  fill(src.floats(), n);
  std::uint64_t step = 0;
  for (auto _ : state) {
    const neap::precision::CodecKey key = {.seed = 1, .step = step++, .tensor = 3, .rounding = rounding};
    benchmark::DoNotOptimize(neap::precision::encode(level, src.floats(), n, key, dst.get()));
  }
  report(state, n);
}

void decode(benchmark::State& state, Level level) {
  const std::int64_t n = state.range(0);
  const Block src(n * 4), code(neap::precision::encoded_bytes(level, n)), dst(n * 4);
  fill(src.floats(), n);
  benchmark::DoNotOptimize(neap::precision::encode(level, src.floats(), n, {}, code.get()));
  for (auto _ : state) {
    neap::precision::decode(level, code.get(), n, dst.floats());
    benchmark::ClobberMemory();
  }
  report(state, n);
}

void statistics(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Block src(n * 4);
  fill(src.floats(), n);
  for (auto _ : state) benchmark::DoNotOptimize(neap::precision::statistics_of(src.floats(), n));
  report(state, n);
}

// Out of every cache, in L3, in L2.
void sizes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t elements : {std::int64_t{16} << 20, std::int64_t{2} << 20, std::int64_t{64} << 10}) {
    b->Arg(elements);
  }
  b->UseRealTime()->MinTime(0.2);
}

}  // namespace

int main(int argc, char** argv) {
  using neap::precision::Rounding;
  benchmark::RegisterBenchmark("memcpy", copy)->Apply(sizes);
  benchmark::RegisterBenchmark("statistics", statistics)->Apply(sizes);
  for (const Level level : neap::precision::kAllLevels) {
    const std::string name(neap::precision::name(level));
    benchmark::RegisterBenchmark(("encode/" + name).c_str(), encode, level, Rounding::kStochastic)->Apply(sizes);
    if (neap::precision::is_grouped(level)) {
      benchmark::RegisterBenchmark(("nearest/" + name).c_str(), encode, level, Rounding::kNearest)->Apply(sizes);
    }
    benchmark::RegisterBenchmark(("decode/" + name).c_str(), decode, level)->Apply(sizes);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
