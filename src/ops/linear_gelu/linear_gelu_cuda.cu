// gelu goes along with cuBLASLt's products as an epilogue where nothing else is wanted. Where backward also wants gelu
// again and the sums for a bias, one pass of ours behind the product is faster than the library's slower products and
// passes of their own for the rest.
#include <algorithm>

#include "device/cuda/map.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear_gelu/linear_gelu.h"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns8.cuh"
#include "ops/reduce/columns_cuda.h"
#include "ops/unary/quick_gelu.cuh"

namespace neap::ops {
namespace {

constexpr const char* kMixture = "a mixture of types";
constexpr const char* kNarrow = "bf16 of widths that are multiples of 8 only";

bool are_all(const OpCall& call, DType type, std::size_t outputs) {
  for (const auto& t : call.inputs) {
    if (t && t->dtype != type) return false;
  }
  return std::all_of(call.outputs.begin(), call.outputs.begin() + static_cast<std::ptrdiff_t>(outputs),
                     [&](const TensorType& t) { return t.dtype == type; });
}

bool fits_epilogue(const OpCall& call, std::size_t outputs, std::int64_t in, std::int64_t out) {
  return are_all(call, DType::kBF16, outputs) && in % kVector == 0 && out % kVector == 0 &&
         call.in(0).elements() * in * out > 0;
}

CudaProductShape forward_shape(const LinearGeluShape& s, DType type, Epilogue epilogue) {
  return {.m = s.rows,
          .n = s.out,
          .k = s.in,
          .a = dense_matrix(s.rows, s.in, false),
          .b = dense_matrix(s.in, s.out, true),
          .bias = s.bias,
          .epilogue = epilogue,
          .in = type,
          .out = type};
}

CudaProductShape backward_shape(const GeluLinearGradShape& s, DType type, Epilogue epilogue) {
  return {.m = s.rows,
          .n = s.in,
          .k = s.out,
          .a = dense_matrix(s.rows, s.out, false),
          .b = dense_matrix(s.out, s.in, false),
          .epilogue = epilogue,
          .in = type,
          .out = type};
}

struct Gelu {
  __device__ float operator()(float x) const { return activation(UnaryFn::kGeluTanh, x, {}); }
};
struct GeluSlope {
  __device__ float operator()(float dy, float x) const { return dy * activation_slope(UnaryFn::kGeluTanh, x, {}); }
};

struct Backward {
  ColumnParts8 s;
  const Bf16* h;
  Bf16* dh;     // holds dy weight
  Bf16* again;  // may lie over h; null: not wanted
};

// One row's eight columns; what is added to the sums has been rounded.
__device__ void gelu_grad_row(const Backward& t, std::int64_t i, const uint4& d_raw, const uint4& h_raw,
                              float (&sums)[1][kVector]) {
  float d[kVector];
  float h[kVector];
  load8(reinterpret_cast<const Bf16*>(&d_raw), d);
  load8(reinterpret_cast<const Bf16*>(&h_raw), h);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float share = quick_gelu_share(h[k]);
    d[k] *= quick_gelu_slope(h[k], share);
    h[k] *= share;
    sums[0][k] += widen(narrow<Bf16>(d[k]));
  }
  store8(t.dh + i, d);
  if (t.again != nullptr) store8(t.again + i, h);
}

constexpr int kBatch = 3;  // rows that a thread has read before it writes any

__global__ void __launch_bounds__(256, 3) gelu_grad_kernel(const __grid_constant__ Backward t, double* partial) {
  __shared__ ColumnShared8 shared;
  const std::int64_t column = t.s.column();
  const std::int64_t end = column < t.s.c ? t.s.end_row() : 0;
  const int step = t.s.row_step();
  float sums[1][kVector] = {};
  for (std::int64_t row = t.s.first_row(); row < end; row += kBatch * step) {
    uint4 d[kBatch], h[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const std::int64_t i = (row + n * step) * t.s.c + column;
      if (row + n * step >= end) break;
      d[n] = *reinterpret_cast<const uint4*>(t.dh + i);
      h[n] = *reinterpret_cast<const uint4*>(t.h + i);
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      if (row + n * step >= end) break;
      gelu_grad_row(t, (row + n * step) * t.s.c + column, d[n], h[n], sums);
    }
  }
  if (partial != nullptr) put_partials8<1>(t.s, sums, shared, partial);
}

void run_bf16(const ColumnParts8& s, const Buffers& b, Bf16* again, float* sums, cudaStream_t stream) {
  auto* partial = sums != nullptr ? reinterpret_cast<double*>(b.workspace) : nullptr;
  gelu_grad_kernel<<<s.grid(), dim3(32, kColumnWarps8), 0, stream>>>({s, b.in<Bf16>(2), b.out<Bf16>(0), again},
                                                                     partial);
  check_launch("gelu_linear_grad");
  if (sums == nullptr) return;
  finish_columns8<1>("gelu_linear_grad", s, partial, stream, [=] __device__(std::int64_t column, const double* total) {
    sums[column] = static_cast<float>(total[0]);
  });
}

void run_f32(const ColumnParts& s, const Buffers& b, float* again, float* sums, cudaStream_t stream) {
  const std::int64_t n = s.rows * s.c;
  const auto* h = b.in<float>(2);
  map2("gelu_linear_grad", n, b.out<float>(0), b.out<float>(0), h, GeluSlope(), stream);
  if (again != nullptr) map1("gelu_linear_grad", n, again, h, Gelu(), stream);
  if (sums != nullptr) column_sums_cuda(s, b.out<float>(0), nullptr, sums, b.workspace, stream);
}

class EpilogueKernel final : public Kernel {
 public:
  EpilogueKernel(const CudaProductShape& shape) : is_forward_(shape.epilogue == Epilogue::kGelu), product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& stream) override {
    // The library takes what it reads by a pointer to what it might write.
    void* side = is_forward_ ? b.outputs[1] : const_cast<void*>(b.in<void>(2));
    product_.run(b.in<void>(0), b.in<void>(1), is_forward_ ? b.in<void>(2) : nullptr, b.outputs[0], b.workspace,
                 handle_of(stream), side);
  }

 private:
  bool is_forward_;
  CudaProduct product_;
};

class ForwardKernel final : public Kernel {
 public:
  ForwardKernel(const CudaProductShape& shape) : n_(shape.m * shape.n), type_(shape.in), product_(shape) {}
  std::int64_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& on) override {
    const cudaStream_t stream = handle_of(on);
    product_.run(b.in<void>(0), b.in<void>(1), b.in<void>(2), b.outputs[1], b.workspace, stream);
    if (type_ == DType::kBF16) return map1("linear_gelu", n_, b.out<Bf16>(0), b.out<Bf16>(1), QuickGelu(), stream);
    map1("linear_gelu", n_, b.out<float>(0), b.out<float>(1), Gelu(), stream);
  }

 private:
  std::int64_t n_;
  DType type_;
  CudaProduct product_;
};

class BackwardKernel final : public Kernel {
 public:
  BackwardKernel(const GeluLinearGradShape& s, DType type)
      : s_(s),
        type_(type),
        product_(backward_shape(s, type, Epilogue::kNone)),
        wide_(s.rows, s.in),
        narrow_(s.rows, s.in) {}
  std::int64_t workspace_bytes() const override {
    const std::int64_t sums = !s_.more ? 0 : type_ == DType::kBF16 ? narrow_.bytes(1) : wide_.bytes(1);
    return std::max(product_.workspace_bytes(), sums);
  }
  std::string numerics() const override { return product_.numerics(); }
  void launch(const Buffers& b, Stream& on) override {
    const cudaStream_t stream = handle_of(on);
    product_.run(b.in<void>(0), b.in<void>(1), nullptr, b.outputs[0], b.workspace, stream);
    auto* sums = wanted_out<float>(b, 2);
    if (type_ == DType::kBF16) return run_bf16(narrow_, b, wanted_out<Bf16>(b, 1), sums, stream);
    run_f32(wide_, b, wanted_out<float>(b, 1), sums, stream);
  }

 private:
  GeluLinearGradShape s_;
  DType type_;
  CudaProduct product_;
  ColumnParts wide_;
  ColumnParts8 narrow_;
};

}  // namespace

Prepared linear_gelu_epilogue(const OpCall& call) {
  const LinearGeluShape s = linear_gelu_shape(call);
  if (!fits_epilogue(call, 2, s.in, s.out)) return Declined{kNarrow};
  return std::make_unique<EpilogueKernel>(forward_shape(s, DType::kBF16, Epilogue::kGelu));
}

Prepared linear_gelu_cuda(const OpCall& call) {
  const LinearGeluShape s = linear_gelu_shape(call);
  const DType type = call.in(0).dtype;
  if (!are_all(call, type, 2)) return Declined{kMixture};
  if (s.rows * s.in * s.out == 0) return Declined{"nothing to multiply"};
  return std::make_unique<ForwardKernel>(forward_shape(s, type, Epilogue::kNone));
}

Prepared gelu_linear_grad_epilogue(const OpCall& call) {
  const GeluLinearGradShape s = gelu_linear_grad_shape(call);
  if (s.more) return Declined{"more than the gradient is wanted"};
  if (!fits_epilogue(call, 1, s.in, s.out)) return Declined{kNarrow};
  return std::make_unique<EpilogueKernel>(backward_shape(s, DType::kBF16, Epilogue::kGeluGrad));
}

Prepared gelu_linear_grad_cuda(const OpCall& call) {
  const GeluLinearGradShape s = gelu_linear_grad_shape(call);
  const DType type = call.in(0).dtype;
  if (!are_all(call, type, s.more ? 2 : 1)) return Declined{kMixture};
  if (s.rows * s.in * s.out == 0) return Declined{"nothing to multiply"};
  if (type == DType::kBF16 && !ColumnParts8::fits(s.in)) return Declined{kNarrow};
  return std::make_unique<BackwardKernel>(s, type);
}

}  // namespace neap::ops
