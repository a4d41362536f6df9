// Times device/cpu/gemm.h on the shapes of training: GFLOP/s, best of several rounds, beside oneDNN's sgemm where the
// build has it. Usage: gemm_bench [substring of a row's name]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/gemm.h"
#include "device/cpu/isa.h"

#ifdef NEAP_WITH_ONEDNN
#include <dnnl.h>
#endif

namespace {

using neap::GemmOperand;
using neap::GemmOutput;
using neap::GemmShape;

struct Case {
  const char* name;
  GemmShape shape;
  bool a_transposed, b_transposed, packed, parallel;
};

// A buffer on a cache line, filled with numbers in [0, 1].
class Matrix {
 public:
  explicit Matrix(std::size_t floats) : data_(new (std::align_val_t{64}) float[floats]) {
    for (std::size_t i = 0; i < floats; ++i) data_[i] = static_cast<float>(i * 2654435761U % 1024) / 1024.0F;
  }
  ~Matrix() { ::operator delete[](data_, std::align_val_t{64}); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  float* get() const { return data_; }

 private:
  float* data_;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds a call: the best of 9 rounds of about 20 ms.
double time_of(const std::function<void()>& call) {
  double start = seconds();
  call();
  const double first = std::max(seconds() - start, 1e-7);
  const int calls = std::max(1, static_cast<int>(0.02 / first));
  double best = 1e30;
  for (int round = 0; round < 9; ++round) {
    start = seconds();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, (seconds() - start) / calls);
  }
  return best;
}

double time_onednn(const Case& t, const Matrix& a, const Matrix& b, const Matrix& c) {
#ifdef NEAP_WITH_ONEDNN
  const std::int64_t m = t.shape.m;
  const std::int64_t n = t.shape.n;
  const std::int64_t k = t.shape.k;
  const int before = omp_get_max_threads();
  if (!t.parallel) omp_set_num_threads(1);
  const double s = time_of([&] {
    dnnl_sgemm(t.a_transposed ? 'T' : 'N', t.b_transposed ? 'T' : 'N', m, n, k, 1.0F, a.get(), t.a_transposed ? m : k,
               b.get(), t.b_transposed ? k : n, 0.0F, c.get(), n);
  });
  omp_set_num_threads(before);
  return s;
#else
  return 0;
#endif
}

double time_neap(const Case& t, const Matrix& a_data, const Matrix& b_data, const Matrix& c_data) {
  const auto [m, n, k] = t.shape;
  const GemmOperand a = {a_data.get(), t.a_transposed ? m : k, t.a_transposed};
  const GemmOperand b = {b_data.get(), t.b_transposed ? k : n, t.b_transposed};
  const GemmOutput c = {c_data.get(), n, false};
  if (t.packed) {
    const Matrix packed(neap::packed_b_bytes(k, n) / sizeof(float));
    neap::pack_b(b, k, n, packed.get());
    return time_of([&] {
      if (t.parallel) {
        neap::gemm_packed_parallel(t.shape, a, packed.get(), c);
      } else {
        neap::gemm_packed(t.shape, a, packed.get(), c);
      }
    });
  }
  const Matrix scratch(neap::gemm_scratch_bytes(t.shape, omp_get_max_threads()) / sizeof(float));
  return time_of([&] {
    if (t.parallel) {
      neap::gemm_parallel(t.shape, a, b, c, scratch.get());
    } else {
      neap::gemm(t.shape, a, b, c, scratch.get());
    }
  });
}

void run(const Case& t) {
  const auto [m, n, k] = t.shape;
  const Matrix a(static_cast<std::size_t>(m * k));
  const Matrix b(static_cast<std::size_t>(k * n));
  const Matrix c(static_cast<std::size_t>(m * n));
  const double flop = 2.0 * static_cast<double>(m * n * k);
  const double own = time_neap(t, a, b, c);
  const double onednn = time_onednn(t, a, b, c);
  std::printf("%-22s %5ld %5ld %5ld  %c%c %-6s %7d %9.1f %9.1f %8.1f\n", t.name, m, n, k, t.a_transposed ? 'T' : 'N',
              t.b_transposed ? 'T' : 'N', t.packed ? "packed" : "plain", t.parallel ? omp_get_max_threads() : 1,
              flop / own / 1e9, onednn > 0 ? flop / onednn / 1e9 : 0.0, own * 1e6);
  std::fflush(stdout);
}

const std::vector<Case> kCases = {
    {"linear", {512, 768, 768}, false, false, true, true},
    {"linear", {512, 768, 768}, false, false, false, true},
    {"linear", {512, 768, 768}, false, true, false, true},
    {"linear", {512, 768, 768}, false, false, false, false},
    {"linear", {512, 1024, 1024}, false, false, false, true},
    {"linear wide", {2048, 3072, 768}, false, false, false, true},
    {"linear wide", {2048, 1536, 384}, false, false, false, true},
    {"linear narrow", {2048, 384, 1536}, false, false, false, true},
    {"data gradient", {2048, 384, 1536}, false, true, false, true},
    {"weight gradient", {384, 1536, 2048}, true, false, false, true},
    {"weight gradient", {2048, 512, 4096}, true, false, false, true},
    {"square small", {64, 1024, 1024}, false, false, true, true},
    {"recurrent", {32, 2048, 512}, false, false, true, true},
    {"recurrent", {32, 2048, 512}, false, false, true, false},
    {"recurrent", {8, 2048, 512}, false, false, true, false},
    {"recurrent", {64, 4096, 1024}, false, false, true, false},
    {"recurrent", {32, 512, 2048}, false, true, true, false},
    {"attention QK'", {256, 256, 64}, false, true, false, false},
    {"attention PV", {256, 64, 256}, false, false, false, false},
    {"attention P'dO", {256, 64, 256}, true, false, false, false},
    {"attention dO V'", {256, 256, 64}, false, true, false, false},
    {"attention NN", {256, 256, 64}, false, false, false, false},
    {"attention TN", {256, 256, 64}, true, false, false, false},
    {"attention NT", {256, 64, 256}, false, true, false, false},
    {"attention TT", {256, 64, 256}, true, true, false, false},
    {"vector", {1, 1024, 256}, false, false, true, false},
    {"vector", {1, 2048, 512}, false, false, true, false},
    {"vector", {1, 2048, 512}, false, false, false, false},
    {"vector", {1, 2048, 512}, false, true, false, false},
    {"vector", {2, 2048, 512}, false, false, true, false},
    {"vector", {4, 2048, 512}, false, false, true, false},
    {"few rows", {2, 2048, 512}, false, false, false, false},
    {"few rows", {4, 2048, 512}, false, false, false, false},
    {"few rows", {8, 2048, 512}, false, false, false, false},
    {"few rows", {8, 2048, 512}, false, true, false, false},
    {"few rows", {14, 2048, 512}, false, false, false, false},
    {"few rows", {20, 2048, 512}, false, false, false, false},
    {"few rows", {8, 1536, 384}, false, false, false, false},
    {"few rows", {8, 384, 1536}, false, false, false, false},
    {"odd", {100, 100, 100}, false, false, false, false},
    {"odd", {333, 1000, 777}, false, false, false, true},
};

}  // namespace

int main(int argc, char** argv) {
  const char* filter = argc > 1 ? argv[1] : "";
  std::printf("ISA %s, %d threads\n", neap::isa_name(), omp_get_max_threads());
  std::printf("%-22s %5s %5s %5s  %2s %-6s %7s %9s %9s %8s\n", "", "m", "n", "k", "op", "B", "threads", "GFLOP/s",
              "oneDNN", "us");
  for (const Case& t : kCases) {
    if (std::strstr(t.name, filter) != nullptr) run(t);
  }
  return 0;
}
