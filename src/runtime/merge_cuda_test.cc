// Merged calls on CUDA against the same calls one by one: the same bits in every tensor.
#include <gtest/gtest.h>

#include <list>

#include "device/cuda/cuda.h"
#include "ops/evaluate.h"
#include "ops/op_check.h"
#include "runtime/merge.h"

namespace neap {
namespace {

// Tensors in one piece of device memory, and calls over them.
class Calls {
 public:
  explicit Calls(std::uint64_t seed) : seed_(seed) {
    NEAP_CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&at_), kBytes));
  }
  ~Calls() { cudaFree(at_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  struct Place {
    TensorType type;
    std::byte* at;
  };
  Place tensor(DType dtype, const Shape& shape, double low = -1) {
    Place place{{dtype, shape}, at_ + used_};
    const HostTensor values = random_tensor(place.type, ++seed_, low, 1);
    NEAP_CHECK_CUDA(cudaMemcpy(place.at, values.data.data(), values.data.size(), cudaMemcpyHostToDevice));
    used_ += (place.type.bytes() + 255) / 256 * 256;
    return place;
  }
  void call(const char* op, const std::vector<Place>& in, const std::vector<Place>& out, Attrs attrs = {}) {
    Operands& o = operands_.emplace_back();
    OpCall call{.op = &op_named(op), .attrs = std::move(attrs)};
    for (const Place& p : in) {
      call.inputs.emplace_back(p.type);
      o.in.push_back(p.at);
    }
    for (const Place& p : out) {
      call.outputs.push_back(p.type);
      o.out.push_back(p.at);
    }
    for (const KernelEntry& entry : std::span(call.op->kernels, call.op->kernel_count)) {
      if (entry.device != DeviceKind::kCuda) continue;
      Prepared prepared = entry.prepare(call);
      if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared)) o.kernel = std::move(*kernel);
      if (o.kernel) break;
    }
    ASSERT_NE(o.kernel, nullptr) << op;
    BoundCall bound{.call = call, .read_once = 1};
    bound.workspace_bytes = o.kernel->workspace_bytes();
    std::byte* workspace = bound.workspace_bytes > 0 ? tensor(DType::kU8, {bound.workspace_bytes}).at : nullptr;
    bound.buffers = {.inputs = o.in, .outputs = o.out, .workspace = workspace};
    calls_.emplace_back(bound);
  }

  // The number of launches; all memory afterwards.
  std::size_t run(bool merged, std::vector<std::byte>& memory) {
    CudaStream stream(CudaContext::get().compute());
    NEAP_CHECK_CUDA(cudaDeviceSynchronize());
    const auto pieces = merge_calls(calls_, merged ? merge_rules_cuda() : std::span<const MergeRule>());
    for (const MergedCalls& piece : pieces) {
      if (piece.run) {
        piece.run(stream);
      } else {
        const auto& c = calls_[piece.calls[0]];
        std::next(operands_.begin(), static_cast<std::ptrdiff_t>(piece.calls[0]))->kernel->launch(c->buffers, stream);
      }
    }
    NEAP_CHECK_CUDA(cudaDeviceSynchronize());
    memory.resize(static_cast<std::size_t>(used_));
    NEAP_CHECK_CUDA(cudaMemcpy(memory.data(), at_, memory.size(), cudaMemcpyDeviceToHost));
    return pieces.size();
  }

 private:
  static constexpr std::size_t kBytes = 16 << 20;
  struct Operands {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::unique_ptr<Kernel> kernel;
  };
  std::byte* at_ = nullptr;
  std::int64_t used_ = 0;
  std::uint64_t seed_;
  std::list<Operands> operands_;
  std::vector<std::optional<BoundCall>> calls_;
};

// `unwritten`: a tensor that a merged kernel need not write.
template <class Make>
void check(Make make, std::size_t launches, std::pair<std::size_t, std::size_t> unwritten = {}) {
  std::vector<std::byte> apart;
  std::vector<std::byte> together;
  Calls one(7);
  make(one);
  one.run(false, apart);
  Calls other(7);
  make(other);
  EXPECT_EQ(other.run(true, together), launches);
  std::fill(apart.begin() + static_cast<std::ptrdiff_t>(unwritten.first),
            apart.begin() + static_cast<std::ptrdiff_t>(unwritten.second), std::byte{});
  std::fill(together.begin() + static_cast<std::ptrdiff_t>(unwritten.first),
            together.begin() + static_cast<std::ptrdiff_t>(unwritten.second), std::byte{});
  EXPECT_TRUE(apart == together);
}

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kWidth = 264;
const Shape kShape = {kRows, kWidth};

TEST(MergedOnCuda, SumAndNorm) {
  for (const DType other : {DType::kF32, DType::kBF16}) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      check(
          [&](Calls& c) {
            const auto sum = c.tensor(DType::kF32, kShape);
            c.call("add", {c.tensor(DType::kF32, kShape), c.tensor(other, kShape)}, {sum});
            c.call("layer_norm", {sum, c.tensor(DType::kF32, {kWidth}), c.tensor(DType::kF32, {kWidth})},
                   {c.tensor(out, kShape), c.tensor(DType::kF32, {kRows}), c.tensor(DType::kF32, {kRows})});
          },
          1);
    }
  }
}

TEST(MergedOnCuda, GradientOfNormAndSum) {
  for (const bool is_cast : {false, true}) {
    for (const DType dy : {DType::kF32, DType::kBF16}) {
      const std::size_t bytes = (static_cast<std::size_t>(kRows * kWidth) * 4 + 255) / 256 * 256;
      check(
          [&](Calls& c) {
            const auto dx = c.tensor(DType::kF32, kShape);  // the first: it need not be written
            const auto sum = c.tensor(DType::kF32, kShape);
            const auto scale = c.tensor(DType::kF32, {kWidth});
            const auto dscale = c.tensor(DType::kF32, {kWidth});
            c.call("layer_norm_grad",
                   {c.tensor(dy, kShape), c.tensor(DType::kF32, kShape), c.tensor(DType::kF32, {kRows}),
                    c.tensor(DType::kF32, {kRows}, 0.5), scale},
                   {dx, dscale, c.tensor(DType::kF32, {kWidth})});
            c.call("cast", {dscale}, {c.tensor(DType::kBF16, {kWidth})});  // stands between
            c.call("add", {sum, dx}, {sum});
            if (is_cast) c.call("cast", {sum}, {c.tensor(DType::kBF16, kShape)});
          },
          2, {0, bytes});
    }
  }
}

TEST(MergedOnCuda, CastsOfAnyLength) {
  check(
      [](Calls& c) {
        for (const std::int64_t n : {5, 4096, 70001}) {
          c.call("cast", {c.tensor(DType::kF32, {n})}, {c.tensor(DType::kBF16, {n})}, {{"to", std::string("bf16")}});
        }
      },
      1);
}

TEST(MergedOnCuda, AdamStepsOfAnyLength) {
  for (const char* op : {"adam_update", "adamw_update"}) {
    check(
        [op](Calls& c) {
          const auto hyper = c.tensor(DType::kF32, {8}, 0.5);
          for (const std::int64_t n : {3, 768, 20001}) {
            c.call(op,
                   {c.tensor(DType::kF32, {n}), c.tensor(DType::kF32, {n}), c.tensor(DType::kF32, {n}),
                    c.tensor(DType::kF32, {n}, 0), hyper},
                   {});
          }
        },
        1);
  }
}

}  // namespace
}  // namespace neap
