// An LSTM's chunk by cuDNN: of f32 or of f32 by TF32, one layer, forwards. Weights, workspace and what cuDNN calls its
// reserve lie in the call's workspace. Nothing is kept: backward runs the same forward call again, which gives the same
// bits.
#include <cudnn.h>
#include <fmt/format.h>

#include <array>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/cuda_kernel.h"
#include "ops/rnn/chunk_op.h"

namespace neap::ops {
namespace {

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} failed: {}", call, cudnnGetErrorString(status)));
}

struct Delete {
  void operator()(cudnnTensorStruct* p) const { cudnnDestroyTensorDescriptor(p); }
  void operator()(cudnnRNNStruct* p) const { cudnnDestroyRNNDescriptor(p); }
  void operator()(cudnnRNNDataStruct* p) const { cudnnDestroyRNNDataDescriptor(p); }
  void operator()(cudnnDropoutStruct* p) const { cudnnDestroyDropoutDescriptor(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Delete>;

template <class T>
Owned<T> made(cudnnStatus_t (*create)(T**), const char* call) {
  T* out = nullptr;
  check(create(&out), call);
  return Owned<T>(out);
}

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kLine = 256;

// Where a part of one of our tensors lies among cuDNN's weights; bytes.
struct Part {
  std::size_t tensor = 0;  // w_ih, w_hh, b_ih, b_hh
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
};

// What one shape needs, and where its pieces lie in the workspace.
class Lstm {
 public:
  explicit Lstm(const ChunkShape& s) : shape_(s) {
    handle_ = CudaContext::get().cudnn();
    rnn_ = made(cudnnCreateRNNDescriptor, "cudnnCreateRNNDescriptor");
    dropout_ = made(cudnnCreateDropoutDescriptor, "cudnnCreateDropoutDescriptor");
    check(cudnnSetDropoutDescriptor(dropout_.get(), handle_, 0, nullptr, 0, 0), "cudnnSetDropoutDescriptor");
    check(cudnnSetRNNDescriptor_v8(rnn_.get(), CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
                                   CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
                                   s.is_tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH, number(s.input), number(s.hidden),
                                   number(s.hidden), 1, dropout_.get(), CUDNN_RNN_PADDED_IO_ENABLED),
          "cudnnSetRNNDescriptor_v8");
    x_ = rows(s.input);
    y_ = rows(s.hidden);
    state_ = made(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
    const std::array<int, 3> dims = {1, number(s.batch), number(s.hidden)};
    const std::array<int, 3> strides = {number(s.batch * s.hidden), number(s.hidden), 1};
    check(cudnnSetTensorNdDescriptor(state_.get(), CUDNN_DATA_FLOAT, 3, dims.data(), strides.data()),
          "cudnnSetTensorNdDescriptor");
    check(cudnnGetRNNWeightSpaceSize(handle_, rnn_.get(), &weights_), "cudnnGetRNNWeightSpaceSize");
    check(cudnnGetRNNTempSpaceSizes(handle_, rnn_.get(), CUDNN_FWD_MODE_TRAINING, x_.get(), &work_, &reserve_),
          "cudnnGetRNNTempSpaceSizes");
    find_parts();
  }

  const ChunkShape& shape() const { return shape_; }
  std::int64_t weight_bytes() const { return align_up(static_cast<std::int64_t>(weights_), kLine); }
  std::int64_t temporary_bytes() const {
    return align_up(static_cast<std::int64_t>(work_), kLine) + align_up(static_cast<std::int64_t>(reserve_), kLine);
  }

  // A missing tensor is zero.
  void pack(const std::array<const float*, 4>& tensors, std::byte* weights, cudaStream_t stream) const {
    for (const Part& p : parts_) {
      const auto* from = reinterpret_cast<const std::byte*>(tensors[p.tensor]);
      const auto bytes = static_cast<std::size_t>(p.bytes);
      if (from == nullptr) {
        NEAP_CHECK_CUDA(cudaMemsetAsync(weights + p.to, 0, bytes, stream));
      } else {
        NEAP_CHECK_CUDA(cudaMemcpyAsync(weights + p.to, from + p.from, bytes, cudaMemcpyDeviceToDevice, stream));
      }
    }
  }
  void unpack(const std::byte* weights, const std::array<float*, 4>& tensors, cudaStream_t stream) const {
    for (const Part& p : parts_) {
      auto* to = reinterpret_cast<std::byte*>(tensors[p.tensor]);
      if (to == nullptr) continue;
      NEAP_CHECK_CUDA(cudaMemcpyAsync(to + p.from, weights + p.to, static_cast<std::size_t>(p.bytes),
                                      cudaMemcpyDeviceToDevice, stream));
    }
  }

  // `weights` as packed, `temporary` of temporary_bytes(); what a gradient needs of it stays there.
  void forward(const ChunkForward& b, const std::byte* weights, std::byte* temporary) const {
    check(cudnnRNNForward(handle_, rnn_.get(), CUDNN_FWD_MODE_TRAINING, nullptr, x_.get(), b.x, y_.get(), b.h,
                          state_.get(), b.h0, b.h_last, state_.get(), b.c0, b.c_last, weights_, weights, work_,
                          temporary, reserve_, reserve_in(temporary)),
          "cudnnRNNForward");
  }
  void backward(const ChunkBackward& b, const std::byte* weights, std::byte* temporary) const {
    check(cudnnRNNBackwardData_v8(handle_, rnn_.get(), nullptr, y_.get(), b.h, b.dh, x_.get(), b.dx, state_.get(), b.h0,
                                  b.dh_last, b.dh0, state_.get(), b.c0, b.dc_last, b.dc0, weights_, weights, work_,
                                  temporary, reserve_, reserve_in(temporary)),
          "cudnnRNNBackwardData_v8");
  }
  // Adds to `gradients`, which lie as the weights do.
  void backward_weights(const ChunkBackward& b, std::byte* gradients, std::byte* temporary) const {
    check(cudnnRNNBackwardWeights_v8(handle_, rnn_.get(), CUDNN_WGRAD_MODE_ADD, nullptr, x_.get(), b.x, state_.get(),
                                     b.h0, y_.get(), b.h, weights_, gradients, work_, temporary, reserve_,
                                     reserve_in(temporary)),
          "cudnnRNNBackwardWeights_v8");
  }

 private:
  static int number(std::int64_t v) { return static_cast<int>(v); }

  Owned<cudnnRNNDataStruct> rows(std::int64_t width) const {
    auto out = made(cudnnCreateRNNDataDescriptor, "cudnnCreateRNNDataDescriptor");
    const std::vector<int> lengths(static_cast<std::size_t>(shape_.batch), number(shape_.steps));
    check(cudnnSetRNNDataDescriptor(out.get(), CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                    number(shape_.steps), number(shape_.batch), number(width), lengths.data(), nullptr),
          "cudnnSetRNNDataDescriptor");
    return out;
  }

  std::byte* reserve_in(std::byte* temporary) const {
    return temporary + align_up(static_cast<std::int64_t>(work_), kLine);
  }

  // cuDNN has the gates in torch's order, each a matrix of its own. Parts that touch on both sides are one.
  void find_parts() {
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40U);  // never read: cuDNN adds to it
    const auto matrix = made(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
    const auto bias = made(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
    std::array<std::vector<Part>, 4> found;
    for (std::int32_t i = 0; i < 8; ++i) {
      void* m = nullptr;
      void* b = nullptr;
      check(cudnnGetRNNWeightParams(handle_, rnn_.get(), 0, weights_, base, i, matrix.get(), &m, bias.get(), &b),
            "cudnnGetRNNWeightParams");
      const bool is_state = i >= 4;
      const std::int64_t gate = i % 4;
      const std::int64_t block = shape_.hidden * (is_state ? shape_.hidden : shape_.input) * kFloat;
      add(found[is_state ? 1 : 0], {is_state ? 1U : 0U, gate * block, static_cast<std::byte*>(m) - base, block});
      add(found[is_state ? 3 : 2], {is_state ? 3U : 2U, gate * shape_.hidden * kFloat,
                                    static_cast<std::byte*>(b) - base, shape_.hidden * kFloat});
    }
    for (const auto& parts : found) parts_.insert(parts_.end(), parts.begin(), parts.end());
  }
  static void add(std::vector<Part>& parts, const Part& p) {
    if (!parts.empty() && parts.back().from + parts.back().bytes == p.from &&
        parts.back().to + parts.back().bytes == p.to) {
      parts.back().bytes += p.bytes;
    } else {
      parts.push_back(p);
    }
  }

  ChunkShape shape_;
  cudnnHandle_t handle_ = nullptr;
  Owned<cudnnDropoutStruct> dropout_;
  Owned<cudnnRNNStruct> rnn_;
  Owned<cudnnRNNDataStruct> x_, y_;
  Owned<cudnnTensorStruct> state_;
  std::size_t weights_ = 0;
  std::size_t work_ = 0;
  std::size_t reserve_ = 0;
  std::vector<Part> parts_;
};

class Forward final : public Kernel {
 public:
  explicit Forward(const ChunkShape& s) : lstm_(s) {}
  std::int64_t workspace_bytes() const override { return lstm_.weight_bytes() + lstm_.temporary_bytes(); }
  std::string numerics() const override { return "standard"; }
  void launch(const Buffers& buffers, Stream& stream) override {
    const ChunkForward b = chunk_forward_buffers(buffers);
    lstm_.pack({b.w_ih, b.w_hh, b.b_ih, b.b_hh}, buffers.workspace, handle_of(stream));
    lstm_.forward(b, buffers.workspace, buffers.workspace + lstm_.weight_bytes());
  }

 private:
  Lstm lstm_;
};

class Backward final : public Kernel {
 public:
  explicit Backward(const ChunkShape& s) : lstm_(s) {
    const auto floats = [](std::int64_t n) { return align_up(n * kFloat, kLine); };
    gradients_ = lstm_.weight_bytes();
    temporary_ = gradients_ + lstm_.weight_bytes();
    h_ = temporary_ + lstm_.temporary_bytes();
    dh_ = h_ + floats(s.rows() * s.hidden);
    dx_ = dh_ + floats(s.rows() * s.hidden);
    end_ = dx_ + floats(s.rows() * s.input);
  }
  std::int64_t workspace_bytes() const override { return end_; }
  std::string numerics() const override { return "standard"; }
  void launch(const Buffers& buffers, Stream& stream) override {
    const cudaStream_t on = handle_of(stream);
    std::byte* const w = buffers.workspace;
    ChunkBackward b = chunk_backward_buffers(buffers);
    auto* const h = reinterpret_cast<float*>(w + h_);
    lstm_.pack({b.w_ih, b.w_hh, b.b_ih, b.b_hh}, w, on);
    lstm_.forward({.x = b.x, .h0 = b.h0, .c0 = b.c0, .h = h}, w, w + temporary_);
    b.h = h;
    if (b.dh == nullptr) {
      const std::int64_t bytes = lstm_.shape().rows() * lstm_.shape().hidden * kFloat;
      NEAP_CHECK_CUDA(cudaMemsetAsync(w + dh_, 0, static_cast<std::size_t>(bytes), on));
      b.dh = reinterpret_cast<const float*>(w + dh_);
    }
    if (b.dx == nullptr) b.dx = reinterpret_cast<float*>(w + dx_);
    lstm_.backward(b, w, w + temporary_);
    lstm_.pack({b.dw_ih_in, b.dw_hh_in, b.db_ih_in, b.db_hh_in}, w + gradients_, on);
    lstm_.backward_weights(b, w + gradients_, w + temporary_);
    lstm_.unpack(w + gradients_, {b.dw_ih, b.dw_hh, b.db_ih, b.db_hh}, on);
  }

 private:
  Lstm lstm_;
  std::int64_t gradients_ = 0, temporary_ = 0, h_ = 0, dh_ = 0, dx_ = 0, end_ = 0;
};

}  // namespace

Prepared lstm_cudnn(const ChunkShape& shape) { return std::make_unique<Forward>(shape); }
Prepared lstm_grad_cudnn(const ChunkShape& shape) { return std::make_unique<Backward>(shape); }

}  // namespace neap::ops
