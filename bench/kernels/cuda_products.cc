// Times all choices of cuBLASLt's heuristic for the products of the models in bench/CUDA.md, and prints, for those
// where the first is not the best by 2 %, the rows of src/ops/matmul/product_choices_cuda.cc.
//   ninja -C build cuda_products && build/bench/cuda_products
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "device/cuda/cublas.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"
#include "ops/matmul/product_choices.h"

namespace neap {
namespace {

using ops::CudaProduct;
using ops::CudaProductShape;
using ops::dense_matrix;
using ops::Epilogue;

struct Memory {
  std::byte* at = nullptr;
  explicit Memory(std::int64_t bytes) {
    NEAP_CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&at), static_cast<std::size_t>(bytes)));
  }
  ~Memory() { cudaFree(at); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

// Numbers of bf16 around 1, all different enough to keep multipliers busy; a piece of them again and again.
void fill(const Memory& memory, std::int64_t elements) {
  static const std::vector<std::uint16_t> values = [] {
    std::vector<std::uint16_t> out(std::size_t{1} << 20);
    std::uint32_t state = 1;
    for (std::uint16_t& v : out) {
      state = state * 1664525U + 1013904223U;
      v = static_cast<std::uint16_t>(0x3F00U | (state >> 25) | ((state >> 9) & 0x8000U));
    }
    return out;
  }();
  const auto piece = static_cast<std::int64_t>(values.size());
  for (std::int64_t at = 0; at < elements; at += piece) {
    const auto bytes = static_cast<std::size_t>(2 * std::min(piece, elements - at));
    NEAP_CHECK_CUDA(cudaMemcpy(memory.at + 2 * at, values.data(), bytes, cudaMemcpyHostToDevice));
  }
}

struct Operands {
  Memory a, b, bias, c, side, workspace;
  explicit Operands(const CudaProductShape& s)
      : a(2 * s.m * s.k), b(2 * s.k * s.n), bias(4 * s.n), c(4 * s.m * s.n), side(4 * s.m * s.n), workspace(64 << 20) {
    fill(a, s.m * s.k);
    fill(b, s.k * s.n);
    fill(bias, s.n);
    fill(side, s.m * s.n);
  }
};

// Microseconds, the median of some.
double time_of(const CudaProduct& product, const Operands& o, int times) {
  const cudaStream_t stream = CudaContext::get().compute();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  NEAP_CHECK_CUDA(cudaEventCreate(&begin));
  NEAP_CHECK_CUDA(cudaEventCreate(&end));
  std::vector<float> ms;
  for (int i = 0; i < times; ++i) {
    NEAP_CHECK_CUDA(cudaEventRecord(begin, stream));
    product.run(o.a.at, o.b.at, o.bias.at, o.c.at, o.workspace.at, stream, o.side.at);
    NEAP_CHECK_CUDA(cudaEventRecord(end, stream));
    NEAP_CHECK_CUDA(cudaEventSynchronize(end));
    ms.push_back(0);
    NEAP_CHECK_CUDA(cudaEventElapsedTime(&ms.back(), begin, end));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(ms.begin(), ms.begin() + times / 2, ms.end());
  return 1e3 * ms[static_cast<std::size_t>(times / 2)];
}

const char* name_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kGelu: return "Epilogue::kGelu";
    case Epilogue::kGeluGrad: return "Epilogue::kGeluGrad";
    case Epilogue::kNone: break;
  }
  return "Epilogue::kNone";
}

void compare(CudaProductShape s) {
  const Operands o(s);
  std::vector<double> best;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < ops::kProductChoices; ++i) {
      s.choice = i;
      std::optional<CudaProduct> product;
      try {
        product.emplace(s);
      } catch (const DeviceError&) {
        break;
      }
      const double us = time_of(*product, o, 15);
      if (round == 0) best.push_back(us);
      best[static_cast<std::size_t>(i)] = std::min(best[static_cast<std::size_t>(i)], us);
    }
  }
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  const auto fastest = std::min_element(best.begin(), best.end());
  if (*fastest > 0.98 * best[0]) return;
  fmt::print("    Known{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},  // {:.1f} instead of {:.1f} us\n", s.m, s.n, s.k,
             flag(s.a.column == 1), flag(s.b.column == 1), flag(s.out == DType::kBF16), flag(s.bias), flag(s.adds),
             name_of(s.epilogue), fastest - best.begin(), *fastest, best[0]);
}

CudaProductShape forward(std::int64_t rows, std::int64_t in, std::int64_t out, bool bias) {
  return {.m = rows,
          .n = out,
          .k = in,
          .a = dense_matrix(rows, in, false),
          .b = dense_matrix(in, out, true),
          .bias = bias,
          .in = DType::kBF16,
          .out = DType::kBF16};
}

CudaProductShape by_input(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.m = rows,
          .n = in,
          .k = out,
          .a = dense_matrix(rows, out, false),
          .b = dense_matrix(out, in, false),
          .in = DType::kBF16,
          .out = DType::kBF16};
}

CudaProductShape by_weight(std::int64_t rows, std::int64_t in, std::int64_t out, bool adds) {
  return {.m = out,
          .n = in,
          .k = rows,
          .a = dense_matrix(out, rows, true),
          .b = dense_matrix(rows, in, false),
          .adds = adds,
          .in = DType::kBF16};
}

CudaProductShape with(CudaProductShape s, Epilogue epilogue) {
  s.epilogue = epilogue;
  return s;
}

void compare_gpt2() {
  constexpr std::int64_t kTokens = 16 * 1024;
  for (const auto& [in, out] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
    compare(forward(kTokens, in, out, true));
    compare(by_input(kTokens, in, out));
    compare(by_weight(kTokens, in, out, false));
  }
  compare(with(forward(kTokens, 768, 3072, true), Epilogue::kGelu));
  compare(with(by_input(kTokens, 3072, 768), Epilogue::kGeluGrad));
  constexpr std::int64_t kTile = 2048;  // of the loss
  compare(forward(kTile, 768, 50304, false));
  compare(by_input(kTile, 768, 50304));
  for (const bool adds : {false, true}) compare(by_weight(kTile, 768, 50304, adds));
}

// Convolutions of single pixels in resnet50.
void compare_resnet50() {
  struct Layer {
    std::int64_t side, in, out;
  };
  for (const Layer& l : std::vector<Layer>{{56, 64, 64},
                                           {56, 64, 256},
                                           {56, 256, 64},
                                           {56, 256, 128},
                                           {28, 128, 512},
                                           {28, 512, 128},
                                           {28, 512, 256},
                                           {14, 256, 1024},
                                           {14, 1024, 256},
                                           {14, 1024, 512},
                                           {7, 512, 2048},
                                           {7, 2048, 512}}) {
    const std::int64_t rows = 128 * l.side * l.side;
    compare(forward(rows, l.in, l.out, false));
    compare(by_input(rows, l.in, l.out));
    compare(by_weight(rows, l.in, l.out, false));
  }
}

void run() {
  fmt::print("{} cublasLt {}\n", CudaContext::get().name(), cublas_lt().version());
  compare_gpt2();
  compare_resnet50();
}

}  // namespace
}  // namespace neap

int main() {
  try {
    neap::run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 4;
  }
  return 0;
}
