#include "ops/matmul/product_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "core/random.h"
#include "device/cuda/cublas.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"
#include "ops/matmul/product_choices.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

// What a split sum may take of the arena.
constexpr std::size_t kMostWorkspace = 16 * static_cast<std::size_t>(kMiB);
constexpr std::size_t kMostWorkspaceBf16 = 32 * static_cast<std::size_t>(kMiB);

cudaDataType_t type_of(DType type) { return type == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F; }

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} failed: {}", call, cublas_lt().status_text(status)));
}

struct DeleteLayout {
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublas_lt().free_layout(p); }
};
struct DeleteProduct {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublas_lt().free_product(p); }
};
struct DeletePreference {
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublas_lt().free_preference(p); }
};
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DeleteLayout>;
using Product = std::unique_ptr<cublasLtMatmulDescOpaque_t, DeleteProduct>;

// The library's matrices are column-major: a row-major one is its transposed.
Layout make_layout(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading, std::int64_t batches,
                   std::int64_t step) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().make_layout(&made, type_of(type), static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), std::max(leading, rows)),
        "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  const auto count = static_cast<std::int32_t>(batches);
  check(cublas_lt().set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batch count");
  check(cublas_lt().set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step), "batch offset");
  return layout;
}

// The library wants its workspace so; the arena's blocks begin at smaller multiples.
constexpr std::int64_t kWorkspaceAlignment = 256;

// Into how many parts the sums are cut: enough to fill a card, each long enough to pay. A function of the shape alone.
std::int64_t parts_of(const CudaProductShape& s) {
  constexpr std::int64_t kTiles = 132;  // what is meant to be busy
  constexpr std::int64_t kLeastPart = 256;
  const std::int64_t tiles = ((s.m + 127) / 128) * ((s.n + 127) / 128);
  std::int64_t parts = 1;
  const auto can_double = [&] {
    return s.k % (2 * parts) == 0 && s.k / (2 * parts) % 4 == 0 && s.k / (2 * parts) >= kLeastPart;
  };
  while (s.batches == 1 && s.in == DType::kF32 && s.epilogue == Epilogue::kNone && tiles * parts * 2 <= 2 * kTiles &&
         parts < 64 && can_double())
    parts *= 2;
  return parts;
}

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

}  // namespace

// One call of the library.
struct CudaProduct::Call {
  CudaProductShape shape;
  Product product;
  Layout left, right, out;  // left is B, right is A: C^T = op(B)^T op(A)^T
  cublasLtMatmulHeuristicResult_t aligned{}, any{};

  explicit Call(const CudaProductShape& s) : shape(s) {
    cublasLtMatmulDesc_t made = nullptr;
    const cublasComputeType_t compute = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublas_lt().make_product(&made, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    product.reset(made);
    const bool b_plain = s.b.column == 1;
    const bool a_plain = s.a.column == 1;
    const cublasOperation_t left_op = b_plain ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasOperation_t right_op = a_plain ? CUBLAS_OP_N : CUBLAS_OP_T;
    set(CUBLASLT_MATMUL_DESC_TRANSA, left_op);
    set(CUBLASLT_MATMUL_DESC_TRANSB, right_op);
    set_epilogue();
    left = b_plain ? make_layout(s.in, s.n, s.k, s.b.row, s.batches, s.b_step)
                   : make_layout(s.in, s.k, s.n, s.b.column, s.batches, s.b_step);
    right = a_plain ? make_layout(s.in, s.k, s.m, s.a.row, s.batches, s.a_step)
                    : make_layout(s.in, s.m, s.k, s.a.column, s.batches, s.a_step);
    out = make_layout(s.out, s.n, s.m, s.n, s.batches, s.c_step == 0 ? s.m * s.n : s.c_step);
    aligned = choose(16);
    // Epilogues are for tensors whose rows, and so whose views, begin at multiples of 16 bytes.
    any = s.epilogue != Epilogue::kNone ? aligned : choose(s.in == DType::kBF16 ? 2 : 4);
  }

  void run(const void* a, const void* b, const void* bias, void* c, std::byte* scratch, cudaStream_t stream,
           void* side) const;

  void set_epilogue() const {
    if (shape.epilogue != Epilogue::kNone) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.n);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(shape.out));
    }
    const cublasLtEpilogue_t what = library_epilogue();
    if (what != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_EPILOGUE, what);
  }

  cublasLtEpilogue_t library_epilogue() const {
    switch (shape.epilogue) {
      case Epilogue::kGelu: return shape.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      case Epilogue::kGeluGrad: return CUBLASLT_EPILOGUE_DGELU;
      case Epilogue::kNone: break;
    }
    return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check(cublas_lt().set_product(product.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  cublasLtMatmulHeuristicResult_t choose(std::uint32_t alignment) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublas_lt().make_preference(&made), "cublasLtMatmulPreferenceCreate");
    const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DeletePreference> preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublas_lt().set_preference(made, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, shape.in == DType::kBF16 ? kMostWorkspaceBf16 : kMostWorkspace);
    // Split sums only by way of the workspace: their order does not depend on which block is first.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, alignment);
    }
    const int choice = alignment < 16 ? 0 : shape.choice >= 0 ? shape.choice : product_choice(shape);
    std::array<cublasLtMatmulHeuristicResult_t, kProductChoices> results{};
    int found = 0;
    const cublasStatus_t status =
        cublas_lt().heuristic(CudaContext::get().cublas(), product.get(), left.get(), right.get(), out.get(), out.get(),
                              made, choice == 0 ? 1 : kProductChoices, results.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS || found <= choice) {
      throw DeviceError(fmt::format("cuBLASLt has no algorithm for a product {} x {} x {}: {}", shape.m, shape.n,
                                    shape.k, cublas_lt().status_text(status)));
    }
    return results[static_cast<std::size_t>(choice)];
  }
};

CudaProduct::CudaProduct(const CudaProductShape& shape) : shape_(shape), parts_(parts_of(shape)) {
  CudaProductShape each = shape;
  if (parts_ > 1) {
    each.k = shape.k / parts_;
    each.batches = parts_;
    each.a_step = each.k * shape.a.column;
    each.b_step = each.k * shape.b.row;
    each.c_step = part_step();
    each.bias = false;
    each.adds = false;
  }
  call_ = std::make_unique<Call>(each);
}

CudaProduct::CudaProduct(CudaProduct&&) noexcept = default;
CudaProduct& CudaProduct::operator=(CudaProduct&&) noexcept = default;
CudaProduct::~CudaProduct() = default;

// Elements from one part's C to the next.
std::int64_t CudaProduct::part_step() const { return align_up(shape_.m * shape_.n, kAlignment); }

std::int64_t CudaProduct::call_bytes() const {
  const auto most = static_cast<std::int64_t>(std::max(call_->aligned.workspaceSize, call_->any.workspaceSize));
  return align_up(most, kWorkspaceAlignment);
}

std::int64_t CudaProduct::workspace_bytes() const {
  const std::int64_t partial = parts_ > 1 ? parts_ * part_step() * static_cast<std::int64_t>(sizeof(float)) : 0;
  const std::int64_t bytes = call_bytes() + partial;
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - kAlignment;
}

std::string CudaProduct::numerics() const {
  const std::uint64_t first = hash_bytes(&call_->aligned.algo, sizeof call_->aligned.algo);
  return fmt::format("{} {:016x}", parts_, hash_bytes(&call_->any.algo, sizeof call_->any.algo, first));
}

void CudaProduct::run(const void* a, const void* b, const void* bias, void* c, std::byte* workspace,
                      cudaStream_t stream, void* side) const {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(workspace));
  auto* const scratch = workspace + (align_up(address, kWorkspaceAlignment) - address);
  if (parts_ == 1) return call_->run(a, b, bias, c, scratch, stream, side);
  auto* partial = reinterpret_cast<float*>(scratch + call_bytes());
  call_->run(a, b, nullptr, partial, scratch, stream, nullptr);
  add_parts_cuda({.parts = parts_, .step = part_step(), .rows = shape_.m, .columns = shape_.n}, partial,
                 shape_.bias ? static_cast<const float*>(bias) : nullptr, shape_.adds, static_cast<float*>(c), stream);
}

// Where a tensor lies within 16 bytes is the graph's doing (a view into another), never the plan's.
void CudaProduct::Call::run(const void* a, const void* b, const void* bias, void* c, std::byte* scratch,
                            cudaStream_t stream, void* side) const {
  const bool is_usual = is_aligned(a) && is_aligned(b) && is_aligned(c);
  const cublasLtMatmulHeuristicResult_t& chosen = is_usual ? aligned : any;
  if (shape.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (shape.epilogue != Epilogue::kNone) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, side);
  const float beta = shape.adds ? 1 : 0;
  const cublasStatus_t status = cublas_lt().matmul(
      CudaContext::get().cublas(), product.get(), &shape.alpha, b, left.get(), a, right.get(), &beta, c, out.get(), c,
      out.get(), &chosen.algo, chosen.workspaceSize > 0 ? scratch : nullptr, chosen.workspaceSize, stream);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("cublasLtMatmul of {} x {} x {} with a workspace of {} failed: {}", shape.m, shape.n,
                                shape.k, chosen.workspaceSize, cublas_lt().status_text(status)));
}

}  // namespace neap::ops
