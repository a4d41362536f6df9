// FMA peak of this machine in f32: gcc -O3 -march=native -fopenmp fma_peak.c -o fma_peak; prints GFLOP/s, best of 5 runs.
// kChains independent accumulators hide the latency (4-5 cycles, 2 ports); nothing touches memory.
#include <omp.h>
#include <stdio.h>

#if defined(__AVX512F__)
enum { kLanes = 16, kChains = 24 };
#else
enum { kLanes = 8, kChains = 12 };
#endif
typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));

static const long kIterations = 4000000;

static float chains(void) {
  Vec sum[kChains], factor, term;
  for (int l = 0; l < kLanes; ++l) {
    factor[l] = 0.999f;
    term[l] = 0.001f;
  }
  __asm__ volatile("" : "+x"(factor), "+x"(term));  // not known to the compiler
  for (int c = 0; c < kChains; ++c) sum[c] = term;
  for (long i = 0; i < kIterations; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * factor + term;
  }
  float total = 0;
  for (int c = 0; c < kChains; ++c) {
    for (int l = 0; l < kLanes; ++l) total += sum[c][l];
  }
  return total;
}

int main(void) {
  double best = 0;
  float sink = 0;
  const double flops = omp_get_max_threads() * 2.0 * kLanes * kChains * (double)kIterations;
  for (int run = 0; run < 5; ++run) {
    const double begin = omp_get_wtime();
#pragma omp parallel reduction(+ : sink)
    sink += chains();
    const double rate = flops / (omp_get_wtime() - begin) * 1e-9;
    if (rate > best) best = rate;
  }
  printf("%.1f\n", best);
  return sink == 12345.0f;
}
