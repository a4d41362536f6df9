#include <algorithm>
#include <array>

#include "device/cuda/cublas.h"
#include "device/cuda/cuda.h"
#include "ops/matmul/product_choices.h"

namespace neap::ops {
namespace {

// The library, the card.
constexpr std::size_t kVersion = 130100;
constexpr const char* kCard = "NVIDIA H200 sm_90";

// bf16 without a batch; `plain`: neither transposed. By `build/bench/cuda_products`, launches of some 5 us included.
struct Known {
  std::int64_t m, n, k;
  bool a_plain, b_plain, is_out_narrow, bias, adds;
  Epilogue epilogue;
  int choice;
};
constexpr std::array kKnown = {
    Known{16384, 2304, 768, true, false, true, true, false, Epilogue::kNone, 1},      // 97.5 instead of 100.1 us
    Known{16384, 768, 768, true, false, true, true, false, Epilogue::kNone, 7},       // 39.9 instead of 43.2 us
    Known{16384, 768, 768, true, true, true, false, false, Epilogue::kNone, 7},       // 39.8 instead of 42.7 us
    Known{768, 768, 16384, false, true, false, false, false, Epilogue::kNone, 1},     // 43.6 instead of 45.2 us
    Known{16384, 3072, 768, true, true, true, false, false, Epilogue::kNone, 6},      // 109.5 instead of 122.4 us
    Known{768, 3072, 16384, false, true, false, false, false, Epilogue::kNone, 1},    // 115.5 instead of 120.2 us
    Known{16384, 3072, 768, true, true, true, false, false, Epilogue::kGeluGrad, 3},  // 157.6 instead of 169.4 us
    Known{2048, 50304, 768, true, false, true, false, false, Epilogue::kNone, 5},     // 205.1 instead of 225.9 us
    Known{50304, 768, 2048, false, true, false, false, false, Epilogue::kNone, 6},    // 213.8 instead of 229.3 us
    Known{50304, 768, 2048, false, true, false, false, true, Epilogue::kNone, 6},     // 225.0 instead of 265.2 us
    Known{401408, 64, 64, true, true, true, false, false, Epilogue::kNone, 4},        // 36.2 instead of 37.2 us
    Known{401408, 256, 64, true, false, true, false, false, Epilogue::kNone, 6},      // 79.1 instead of 83.4 us
    Known{401408, 64, 256, true, true, true, false, false, Epilogue::kNone, 7},       // 70.0 instead of 72.8 us
    Known{256, 64, 401408, false, true, false, false, false, Epilogue::kNone, 3},     // 71.1 instead of 74.5 us
    Known{401408, 64, 256, true, false, true, false, false, Epilogue::kNone, 3},      // 69.7 instead of 72.7 us
    Known{401408, 256, 64, true, true, true, false, false, Epilogue::kNone, 6},       // 78.8 instead of 82.5 us
    Known{64, 256, 401408, false, true, false, false, false, Epilogue::kNone, 3},     // 74.1 instead of 77.2 us
    Known{401408, 128, 256, true, false, true, false, false, Epilogue::kNone, 7},     // 82.4 instead of 87.5 us
    Known{401408, 256, 128, true, true, true, false, false, Epilogue::kNone, 6},      // 91.3 instead of 94.7 us
    Known{100352, 512, 128, true, false, true, false, false, Epilogue::kNone, 7},     // 48.6 instead of 50.9 us
    Known{100352, 128, 512, true, true, true, false, false, Epilogue::kNone, 7},      // 43.5 instead of 46.0 us
    Known{100352, 128, 512, true, false, true, false, false, Epilogue::kNone, 7},     // 42.8 instead of 45.9 us
    Known{100352, 512, 128, true, true, true, false, false, Epilogue::kNone, 2},      // 49.5 instead of 52.9 us
    Known{128, 512, 100352, false, true, false, false, false, Epilogue::kNone, 2},    // 43.7 instead of 44.7 us
    Known{100352, 256, 512, true, false, true, false, false, Epilogue::kNone, 2},     // 53.4 instead of 55.8 us
    Known{100352, 512, 256, true, true, true, false, false, Epilogue::kNone, 5},      // 55.7 instead of 59.6 us
    Known{25088, 1024, 256, true, false, true, false, false, Epilogue::kNone, 6},     // 31.4 instead of 36.4 us
    Known{25088, 1024, 256, true, true, true, false, false, Epilogue::kNone, 4},      // 32.0 instead of 35.0 us
    Known{256, 1024, 25088, false, true, false, false, false, Epilogue::kNone, 1},    // 31.4 instead of 32.8 us
    Known{25088, 512, 1024, true, false, true, false, false, Epilogue::kNone, 5},     // 44.2 instead of 46.4 us
    Known{25088, 1024, 512, true, true, true, false, false, Epilogue::kNone, 5},      // 44.6 instead of 49.9 us
    Known{6272, 2048, 512, true, false, true, false, false, Epilogue::kNone, 3},      // 27.2 instead of 32.2 us
    Known{2048, 512, 6272, false, true, false, false, false, Epilogue::kNone, 1},     // 26.9 instead of 28.1 us
    Known{6272, 512, 2048, true, false, true, false, false, Epilogue::kNone, 1},      // 29.2 instead of 29.9 us
    Known{6272, 2048, 512, true, true, true, false, false, Epilogue::kNone, 4},       // 27.8 instead of 34.2 us
};

bool is_same(const Known& known, const CudaProductShape& s) {
  return known.m == s.m && known.n == s.n && known.k == s.k && known.a_plain == (s.a.column == 1) &&
         known.b_plain == (s.b.column == 1) && known.is_out_narrow == (s.out == DType::kBF16) && known.bias == s.bias &&
         known.adds == s.adds && known.epilogue == s.epilogue;
}

}  // namespace

int product_choice(const CudaProductShape& s) {
  if (s.in != DType::kBF16 || s.batches != 1) return 0;
  if (cublas_lt().version() != kVersion || CudaContext::get().name() != kCard) return 0;
  const auto* at = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) { return is_same(known, s); });
  return at == kKnown.end() ? 0 : at->choice;
}

}  // namespace neap::ops
