// Convolutions by cuDNN, channels last, of f32, of f32 by TF32, or of bf16 with sums in f32. The algorithm is the first
// of the library's own ranking that is deterministic and takes a bounded workspace; it is chosen by shape, never by
// timing.
#include <cudnn.h>
#include <fmt/format.h>

#include <optional>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/adding_cuda.h"
#include "ops/conv/conv.h"
#include "ops/convert_kernel.h"
#include "ops/cuda_kernel.h"
#include "ops/reduce/columns_cuda.h"

namespace neap::ops {
namespace {

constexpr std::size_t kMostWorkspace = 256 * static_cast<std::size_t>(kMiB);

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw DeviceError(fmt::format("{} failed: {}", call, cudnnGetErrorString(status)));
}

struct Delete {
  void operator()(cudnnTensorStruct* p) const { cudnnDestroyTensorDescriptor(p); }
  void operator()(cudnnFilterStruct* p) const { cudnnDestroyFilterDescriptor(p); }
  void operator()(cudnnConvolutionStruct* p) const { cudnnDestroyConvolutionDescriptor(p); }
};

struct Descriptors {
  std::unique_ptr<cudnnTensorStruct, Delete> x, y;
  std::unique_ptr<cudnnFilterStruct, Delete> w;
  std::unique_ptr<cudnnConvolutionStruct, Delete> conv;

  explicit Descriptors(const ConvShape& s) {
    const cudnnDataType_t type = s.type == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    x = tensor(type, s.n, s.c, s.h, s.w);
    y = tensor(type, s.n, s.o, s.oh, s.ow);
    cudnnFilterDescriptor_t filter = nullptr;
    check(cudnnCreateFilterDescriptor(&filter), "cudnnCreateFilterDescriptor");
    w.reset(filter);
    const Window& k = s.window;
    check(cudnnSetFilter4dDescriptor(filter, type, CUDNN_TENSOR_NHWC, number(s.o), number(s.c / s.groups),
                                     number(k.h.kernel), number(k.w.kernel)),
          "cudnnSetFilter4dDescriptor");
    cudnnConvolutionDescriptor_t made = nullptr;
    check(cudnnCreateConvolutionDescriptor(&made), "cudnnCreateConvolutionDescriptor");
    conv.reset(made);
    check(cudnnSetConvolution2dDescriptor(made, number(k.h.pad_begin), number(k.w.pad_begin), number(k.h.stride),
                                          number(k.w.stride), number(k.h.dilation), number(k.w.dilation),
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    set_math(s.type == DType::kBF16 || s.tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
    check(cudnnSetConvolutionGroupCount(made, number(s.groups)), "cudnnSetConvolutionGroupCount");
  }

  void set_math(cudnnMathType_t math) const {
    check(cudnnSetConvolutionMathType(conv.get(), math), "cudnnSetConvolutionMathType");
  }

 private:
  static int number(std::int64_t v) { return static_cast<int>(v); }
  static std::unique_ptr<cudnnTensorStruct, Delete> tensor(cudnnDataType_t type, std::int64_t n, std::int64_t c,
                                                           std::int64_t h, std::int64_t w) {
    cudnnTensorDescriptor_t made = nullptr;
    check(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
    std::unique_ptr<cudnnTensorStruct, Delete> out(made);
    check(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NHWC, type, number(n), number(c), number(h), number(w)),
          "cudnnSetTensor4dDescriptor");
    return out;
  }
};

struct Choice {
  int algorithm;
  std::size_t workspace;
  cudnnMathType_t math;  // that it was ranked with
};

// The library may rank what it was not asked for.
bool is_allowed(cudnnMathType_t math, const ConvShape& s) {
  if (s.type == DType::kBF16) return true;
  return math == CUDNN_TENSOR_OP_MATH ? s.tf32 : math != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
}

template <class Perf>
std::optional<Choice> first_usable(const Perf* found, int count, const ConvShape& s) {
  for (int i = 0; i < count; ++i) {
    const bool fits = found[i].status == CUDNN_STATUS_SUCCESS && found[i].memory <= kMostWorkspace;
    if (fits && found[i].determinism == CUDNN_DETERMINISTIC && is_allowed(found[i].mathType, s)) {
      return Choice{found[i].algo, found[i].memory, found[i].mathType};
    }
  }
  return std::nullopt;
}

constexpr int kCandidates = 16;

class CudnnConv : public Kernel {
 public:
  CudnnConv(const ConvShape& s, const Choice& choice)
      : d_(s), algorithm_(choice.algorithm), workspace_(choice.workspace) {
    if (!s.tf32) return;
    d_.set_math(choice.math);
    math_ = fmt::format(" math {}", static_cast<int>(choice.math));
  }
  std::int64_t workspace_bytes() const override { return static_cast<std::int64_t>(workspace_); }
  std::string numerics() const override { return fmt::format("algorithm {}{}", algorithm_, math_); }

 protected:
  static constexpr float kOne = 1;
  static constexpr float kZero = 0;
  Descriptors d_;
  int algorithm_;
  std::size_t workspace_;

 private:
  std::string math_;
};

class ForwardConv final : public CudnnConv {
 public:
  ForwardConv(const ConvShape& s, bool bias, const Choice& choice)
      : CudnnConv(s, choice), rows_(s.n * s.oh * s.ow), channels_(s.o), bias_(bias) {}
  void launch(const Buffers& b, Stream& stream) override {
    check(cudnnConvolutionForward(CudaContext::get().cudnn(), &kOne, d_.x.get(), b.inputs[0], d_.w.get(), b.inputs[1],
                                  d_.conv.get(), static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), b.workspace,
                                  workspace_, &kZero, d_.y.get(), b.outputs[0]),
          "cudnnConvolutionForward");
    if (bias_) add_to_rows_cuda(b.out<float>(0), b.in<float>(2), rows_, channels_, handle_of(stream));
  }

 private:
  std::int64_t rows_, channels_;
  bool bias_;
};

// Of bf16 the library makes dw in bf16, too: behind its own workspace.
class FilterConv : public CudnnConv {
 public:
  FilterConv(const ConvShape& s, const Choice& choice)
      : CudnnConv(s, choice),
        elements_(s.o * s.window.h.kernel * s.window.w.kernel * (s.c / s.groups)),
        is_narrow_(s.type == DType::kBF16) {}
  std::int64_t workspace_bytes() const override {
    if (!is_narrow_) return CudnnConv::workspace_bytes();
    return align_up(CudnnConv::workspace_bytes(), 256) + byte_size(DType::kBF16, elements_);
  }

 protected:
  // Where dw is made; with `adds`, added to what is there.
  std::byte* make(const Buffers& b, bool adds) const {
    std::byte* dw = is_narrow_ ? b.workspace + align_up(CudnnConv::workspace_bytes(), 256) : b.outputs[0];
    check(cudnnConvolutionBackwardFilter(CudaContext::get().cudnn(), &kOne, d_.x.get(), b.inputs[0], d_.y.get(),
                                         b.inputs[1], d_.conv.get(),
                                         static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), b.workspace,
                                         workspace_, adds ? &kOne : &kZero, d_.w.get(), dw),
          "cudnnConvolutionBackwardFilter");
    return dw;
  }
  std::int64_t elements_;  // of dw
  bool is_narrow_;
};

class WeightConv final : public FilterConv {
 public:
  WeightConv(const ConvShape& s, const Choice& choice) : FilterConv(s, choice), columns_(s.n * s.oh * s.ow, s.o) {}
  std::int64_t workspace_bytes() const override {
    return is_narrow_ ? FilterConv::workspace_bytes() : std::max(FilterConv::workspace_bytes(), columns_.bytes(1));
  }
  void launch(const Buffers& b, Stream& stream) override {
    const std::byte* dw = make(b, false);
    if (is_narrow_) return widen_cuda(dw, b.out<float>(0), elements_, stream);
    auto* bias = wanted_out<float>(b, 1);
    if (bias != nullptr) column_sums_cuda(columns_, b.in<float>(1), nullptr, bias, b.workspace, handle_of(stream));
  }

 private:
  ColumnParts columns_;
};

class AddWeightConv final : public FilterConv {
 public:
  AddWeightConv(const ConvShape& s, bool with_sum, const Choice& choice) : FilterConv(s, choice), with_sum_(with_sum) {}
  void launch(const Buffers& b, Stream& stream) override {
    if (is_narrow_) {
      return add_widened_cuda(b.in<float>(2), make(b, false), b.out<float>(0), elements_, handle_of(stream));
    }
    if (with_sum_) start_from_cuda(b.in<float>(2), b.out<float>(0), elements_, handle_of(stream));
    make(b, with_sum_);
  }

 private:
  bool with_sum_;
};

class DataConv final : public CudnnConv {
 public:
  using CudnnConv::CudnnConv;
  void launch(const Buffers& b, Stream& /*stream*/) override {
    check(
        cudnnConvolutionBackwardData(CudaContext::get().cudnn(), &kOne, d_.w.get(), b.inputs[1], d_.y.get(),
                                     b.inputs[0], d_.conv.get(), static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_),
                                     b.workspace, workspace_, &kZero, d_.x.get(), b.outputs[0]),
        "cudnnConvolutionBackwardData");
  }
};

// Why cuDNN's plain interface cannot do it.
const char* reason_against(const ConvShape& s) {
  const auto is_even = [](const WindowAxis& a) { return a.pad_begin == a.pad_end && a.pad_begin >= 0; };
  if (s.is_volume) return "volumes";
  if (!is_even(s.window.h) || !is_even(s.window.w)) return "padding that differs at both ends";
  if (s.n == 0 || s.c == 0 || s.o == 0 || s.oh == 0 || s.ow == 0) return "nothing to convolve";
  return nullptr;
}

constexpr const char* kNone = "cuDNN has no deterministic algorithm for it";

}  // namespace

Prepared conv_forward_cudnn(const ConvShape& s, bool with_bias) {
  if (const char* why = reason_against(s)) return Declined{why};
  const Descriptors d(s);
  cudnnConvolutionFwdAlgoPerf_t found[kCandidates];
  int count = 0;
  const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(
      CudaContext::get().cudnn(), d.x.get(), d.w.get(), d.conv.get(), d.y.get(), kCandidates, &count, found);
  const auto chosen = status == CUDNN_STATUS_SUCCESS ? first_usable(found, count, s) : std::nullopt;
  if (!chosen) return Declined{kNone};
  return std::make_unique<ForwardConv>(s, with_bias, *chosen);
}

namespace {

// make(choice) with the one for the gradient of a weight.
template <class Make>
Prepared with_weight_algorithm(const ConvShape& s, const Make& make) {
  if (const char* why = reason_against(s)) return Declined{why};
  const Descriptors d(s);
  cudnnConvolutionBwdFilterAlgoPerf_t found[kCandidates];
  int count = 0;
  const cudnnStatus_t status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
      CudaContext::get().cudnn(), d.x.get(), d.y.get(), d.conv.get(), d.w.get(), kCandidates, &count, found);
  const auto chosen = status == CUDNN_STATUS_SUCCESS ? first_usable(found, count, s) : std::nullopt;
  if (!chosen) return Declined{kNone};
  return make(*chosen);
}

}  // namespace

Prepared conv_weight_cudnn(const ConvShape& s) {
  return with_weight_algorithm(s, [&](const Choice& choice) { return std::make_unique<WeightConv>(s, choice); });
}

Prepared conv_add_weight_cudnn(const ConvShape& s, bool with_sum) {
  return with_weight_algorithm(
      s, [&](const Choice& choice) { return std::make_unique<AddWeightConv>(s, with_sum, choice); });
}

Prepared conv_data_cudnn(const ConvShape& s) {
  if (const char* why = reason_against(s)) return Declined{why};
  const Descriptors d(s);
  cudnnConvolutionBwdDataAlgoPerf_t found[kCandidates];
  int count = 0;
  const cudnnStatus_t status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
      CudaContext::get().cudnn(), d.w.get(), d.y.get(), d.conv.get(), d.x.get(), kCandidates, &count, found);
  const auto chosen = status == CUDNN_STATUS_SUCCESS ? first_usable(found, count, s) : std::nullopt;
  if (!chosen) return Declined{kNone};
  return std::make_unique<DataConv>(s, *chosen);
}

}  // namespace neap::ops
