// Convolutions by oneDNN: activations stay channels-last, weights are copied from their plain layout into the one that
// the primitive asks for at every launch (they change every step; the copy takes well below 1 % of the convolution).
#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cpu/bf16.h"
#include "device/cpu/onednn.h"
#include "ops/conv/conv.h"

namespace neap::ops {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// What a convolution's primitives are made from. The names are oneDNN's: src is x, dst is y.
struct Problem {
  Desc src, dst, bias;
  Desc weights;  // any layout
  Desc plain;    // the weights' own: [o, kh, kw, c / groups]
  Dims strides, dilates, pad_l, pad_r;
};

using Type = dnnl::memory::data_type;
Type type_of(DType type) { return type == DType::kBF16 ? Type::bf16 : Type::f32; }

Desc channels_last(Type type, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return onednn_strided({n, c, h, w}, {h * w * c, 1, w * c, c}, type);
}

Desc channels_last(Type type, std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
  return onednn_strided({n, c, d, h, w}, {d * h * w * c, 1, h * w * c, w * c, c}, type);
}

// Of x and y, of the weights and of the bias.
struct ConvTypes {
  Type data, weights, bias;
};
ConvTypes forward_types(const ConvShape& s) { return {type_of(s.type), type_of(s.type), type_of(s.bias_type)}; }
ConvTypes weight_types(const ConvShape& s) { return {type_of(s.type), Type::f32, Type::f32}; }

// What is missing at the end for the last window; negative where the input has a rest that no window reaches.
std::int64_t missing(const WindowAxis& a, std::int64_t positions, std::int64_t size) {
  return (positions - 1) * a.stride + a.extent() - a.pad_begin - size;
}

Problem volume_problem(const ConvShape& s, const ConvTypes& t, bool with_bias) {
  const auto& [d, h, w] = s.window;
  const std::int64_t og = s.o / s.groups;
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t row = w.kernel * cg;
  const std::int64_t whole = d.kernel * h.kernel * row;
  Dims sizes = {s.groups, og, cg, d.kernel, h.kernel, w.kernel};
  Dims steps = {og * whole, whole, 1, h.kernel * row, row, cg};
  if (s.groups == 1) {
    sizes.erase(sizes.begin());
    steps.erase(steps.begin());
  }
  return {.src = channels_last(t.data, s.n, s.c, s.d, s.h, s.w),
          .dst = channels_last(t.data, s.n, s.o, s.od, s.oh, s.ow),
          .bias = with_bias ? onednn_dense({s.o}, t.bias) : Desc(),
          .weights = onednn_any(sizes, t.weights),
          .plain = onednn_strided(sizes, steps, t.weights),
          .strides = {d.stride, h.stride, w.stride},
          .dilates = {d.dilation - 1, h.dilation - 1, w.dilation - 1},
          .pad_l = {d.pad_begin, h.pad_begin, w.pad_begin},
          .pad_r = {missing(d, s.od, s.d), missing(h, s.oh, s.h), missing(w, s.ow, s.w)}};
}

Problem problem_of(const ConvShape& s, const ConvTypes& t, bool with_bias) {
  if (s.is_volume) return volume_problem(s, t, with_bias);
  const WindowAxis& h = s.window.h;
  const WindowAxis& w = s.window.w;
  const std::int64_t og = s.o / s.groups;
  const std::int64_t cg = s.c / s.groups;
  const std::int64_t tap = w.kernel * cg;
  Dims sizes = {s.groups, og, cg, h.kernel, w.kernel};
  Dims steps = {og * h.kernel * tap, h.kernel * tap, 1, tap, cg};
  if (s.groups == 1) {
    sizes.erase(sizes.begin());
    steps.erase(steps.begin());
  }
  return {.src = channels_last(t.data, s.n, s.c, s.h, s.w),
          .dst = channels_last(t.data, s.n, s.o, s.oh, s.ow),
          .bias = with_bias ? onednn_dense({s.o}, t.bias) : Desc(),
          .weights = onednn_any(sizes, t.weights),
          .plain = onednn_strided(sizes, steps, t.weights),
          .strides = {h.stride, w.stride},
          .dilates = {h.dilation - 1, w.dilation - 1},
          .pad_l = {h.pad_begin, w.pad_begin},
          .pad_r = {missing(h, s.oh, s.h), missing(w, s.ow, s.w)}};
}

dnnl::convolution_forward::primitive_desc forward_desc(const Problem& p) {
  const dnnl::convolution_forward::desc d(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, p.src,
                                          p.weights, p.bias, p.dst, p.strides, p.dilates, p.pad_l, p.pad_r);
  return {d, onednn_attr(), onednn_engine()};
}

OneDnnCall reorder(const Desc& from, const Desc& to) {
  if (from == to) return {};
  const dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, onednn_attr());
  return {dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

// The workspace holds the weights (or their gradient) in the primitive's layout, then whatever scratch is asked for.
class ConvKernel : public Kernel {
 public:
  ConvKernel(OneDnnCall call, std::string numerics, OneDnnCall weights_copy, const Desc& weights)
      : call_(std::move(call)),
        copy_(std::move(weights_copy)),
        numerics_(std::move(numerics)),
        weights_bytes_(copy_ ? align_up(static_cast<std::int64_t>(weights.get_size())) : 0) {}

  std::int64_t workspace_bytes() const override {
    const std::int64_t copying = copy_ ? copy_.scratchpad_bytes() : 0;
    return weights_bytes_ + std::max(call_.scratchpad_bytes(), copying);
  }
  std::string numerics() const override { return numerics_; }

 protected:
  std::byte* scratch(const Buffers& b) const { return b.workspace + weights_bytes_; }

  const void* weights_in(const Buffers& b, const std::byte* plain) {
    if (!copy_) return plain;
    copy_.set(DNNL_ARG_FROM, plain);
    copy_.set(DNNL_ARG_TO, b.workspace);
    copy_.run(scratch(b));
    return b.workspace;
  }

  OneDnnCall call_;
  OneDnnCall copy_;

 private:
  std::string numerics_;
  std::int64_t weights_bytes_;
};

class ForwardKernel final : public ConvKernel {
  using ConvKernel::ConvKernel;
  void launch(const Buffers& b, Stream& /*stream*/) override {
    call_.set(DNNL_ARG_WEIGHTS, weights_in(b, b.inputs[1]));
    call_.set(DNNL_ARG_SRC, b.inputs[0]);
    if (b.in<float>(2) != nullptr) call_.set(DNNL_ARG_BIAS, b.inputs[2]);
    call_.set(DNNL_ARG_DST, b.outputs[0]);
    call_.run(scratch(b));
  }
};

class WeightKernel final : public ConvKernel {
  using ConvKernel::ConvKernel;
  void launch(const Buffers& b, Stream& /*stream*/) override {
    std::byte* made = copy_ ? b.workspace : b.outputs[0];
    call_.set(DNNL_ARG_SRC, b.inputs[0]);
    call_.set(DNNL_ARG_DIFF_DST, b.inputs[1]);
    call_.set(DNNL_ARG_DIFF_WEIGHTS, made);
    if (b.outputs.size() > 1) call_.set(DNNL_ARG_DIFF_BIAS, b.outputs[1]);
    call_.run(scratch(b));
    if (!copy_) return;
    copy_.set(DNNL_ARG_FROM, made);
    copy_.set(DNNL_ARG_TO, b.outputs[0]);
    copy_.run(scratch(b));
  }
};

class DataKernel final : public ConvKernel {
 public:
  DataKernel(OneDnnCall call, std::string numerics, OneDnnCall copy, const Desc& weights, const ConvShape& s)
      : ConvKernel(std::move(call), std::move(numerics), std::move(copy), weights),
        rows_(s.n * s.d * s.h * s.w),
        width_(s.c) {}

  void launch(const Buffers& b, Stream& /*stream*/) override {
    call_.set(DNNL_ARG_WEIGHTS, weights_in(b, b.inputs[1]));
    call_.set(DNNL_ARG_DIFF_DST, b.inputs[0]);
    call_.set(DNNL_ARG_DIFF_SRC, b.outputs[0]);
    call_.run(scratch(b));
    if (const float* bias = b.in<float>(2)) add_bias(bias, b.out<float>(0));
  }

 private:
  void add_bias(const float* bias, float* dx) const {
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < width_; ++c) dx[r * width_ + c] += bias[c];
    }
  }

  std::int64_t rows_;
  std::int64_t width_;
};

// Makes a kernel; what oneDNN does not support (negative pads, say) is declined.
template <class Make>
Prepared prepared(const ConvShape& s, Make make) {
  if (s.n * s.d * s.h * s.w * s.c * s.od * s.oh * s.ow * s.o == 0) return Declined{"nothing to compute"};
  if (s.type == DType::kBF16 && !has_bf16_products()) return Declined{"this CPU has no products of bf16"};
  try {
    return make();
  } catch (const dnnl::error& e) {
    return Declined{fmt::format("oneDNN: {}", e.what())};
  }
}

}  // namespace

Prepared conv_forward_onednn(const ConvShape& s, bool with_bias) {
  return prepared(s, [&]() -> Prepared {
    const Problem p = problem_of(s, forward_types(s), with_bias);
    const auto pd = forward_desc(p);
    OneDnnCall call(
        dnnl::convolution_forward(pd), pd.scratchpad_desc(),
        {{DNNL_ARG_SRC, p.src}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_BIAS, p.bias}, {DNNL_ARG_DST, p.dst}});
    return std::make_unique<ForwardKernel>(std::move(call), pd.impl_info_str(), reorder(p.plain, pd.weights_desc()),
                                           pd.weights_desc());
  });
}

Prepared conv_weight_onednn(const ConvShape& s, bool with_bias) {
  return prepared(s, [&]() -> Prepared {
    const Problem p = problem_of(s, weight_types(s), with_bias);
    const auto hint = forward_desc(problem_of(s, forward_types(s), with_bias));
    const dnnl::convolution_backward_weights::desc d(dnnl::algorithm::convolution_direct, p.src, p.weights, p.bias,
                                                     p.dst, p.strides, p.dilates, p.pad_l, p.pad_r);
    const dnnl::convolution_backward_weights::primitive_desc pd(d, onednn_attr(), onednn_engine(), hint);
    OneDnnCall call(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(),
                    {{DNNL_ARG_SRC, p.src},
                     {DNNL_ARG_DIFF_DST, p.dst},
                     {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                     {DNNL_ARG_DIFF_BIAS, p.bias}});
    return std::make_unique<WeightKernel>(std::move(call), pd.impl_info_str(), reorder(pd.diff_weights_desc(), p.plain),
                                          pd.diff_weights_desc());
  });
}

Prepared conv_data_onednn(const ConvShape& s) {
  return prepared(s, [&]() -> Prepared {
    const Problem p = problem_of(s, forward_types(s), false);
    const dnnl::convolution_backward_data::desc d(dnnl::algorithm::convolution_direct, p.src, p.weights, p.dst,
                                                  p.strides, p.dilates, p.pad_l, p.pad_r);
    const dnnl::convolution_backward_data::primitive_desc pd(d, onednn_attr(), onednn_engine(), forward_desc(p));
    OneDnnCall call(dnnl::convolution_backward_data(pd), pd.scratchpad_desc(),
                    {{DNNL_ARG_DIFF_DST, p.dst}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, p.src}});
    return std::make_unique<DataKernel>(std::move(call), pd.impl_info_str(), reorder(p.plain, pd.weights_desc()),
                                        pd.weights_desc(), s);
  });
}

}  // namespace neap::ops
