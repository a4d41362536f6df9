// oneDNN's LSTM primitive, f32, one layer in one direction, forward for training and backward: what Neap's chunks are
// timed against.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace neap::bench {

class OneDnnLstm {
 public:
  OneDnnLstm(std::int64_t steps, std::int64_t batch, std::int64_t input, std::int64_t hidden)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Tag = dnnl::memory::format_tag;
    const auto f32 = [](const dnnl::memory::dims& d, Tag tag) {
      return dnnl::memory::desc(d, dnnl::memory::data_type::f32, tag);
    };
    const auto src = f32({steps, batch, input}, Tag::tnc);
    const auto dst = f32({steps, batch, hidden}, Tag::tnc);
    const auto state = f32({1, 1, batch, hidden}, Tag::ldnc);
    const auto bias = f32({1, 1, 4, hidden}, Tag::ldgo);
    const dnnl::memory::dims w_layer = {1, 1, input, 4, hidden};
    const dnnl::memory::dims w_iter = {1, 1, hidden, 4, hidden};
    const auto any_layer = f32(w_layer, Tag::any);
    const auto any_iter = f32(w_iter, Tag::any);
    const dnnl::memory::desc none;
    const auto way = dnnl::rnn_direction::unidirectional_left2right;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::lstm_forward::primitive_desc forward(
        dnnl::lstm_forward::desc(dnnl::prop_kind::forward_training, way, src, none, none, any_layer, any_iter, bias,
                                 dst, state, state),
        attr, engine_);
    const dnnl::lstm_backward::primitive_desc backward(
        dnnl::lstm_backward::desc(dnnl::prop_kind::backward, way, src, none, none, any_layer, any_iter, bias, dst,
                                  state, state, src, none, none, any_layer, any_iter, bias, dst, state, state),
        attr, engine_, forward);
    forward_ = dnnl::lstm_forward(forward);
    backward_ = dnnl::lstm_backward(backward);
    workspace_bytes_ = static_cast<std::int64_t>(forward.workspace_desc().get_size());
    scratch_bytes_ = static_cast<std::int64_t>(
        std::max(forward.scratchpad_desc().get_size(), backward.scratchpad_desc().get_size()));

    // Weights as they are trained, and in the layouts that the primitives want.
    master_ = {make(f32(w_layer, Tag::ldgoi)), make(f32(w_iter, Tag::ldgoi))};
    for_forward_ = {make(forward.weights_layer_desc()), make(forward.weights_iter_desc())};
    for_backward_ = {make(backward.weights_layer_desc()), make(backward.weights_iter_desc())};
    gradients_ = {make(backward.diff_weights_layer_desc()), make(backward.diff_weights_iter_desc())};
    set_arguments(forward, backward);
    bring_weights();
  }

  // Forward and backward; what backward adds to is zeroed, as each step must.
  void run() {
    for (const dnnl::memory& g : gradients_) zero(g);
    forward_.execute(stream_, forward_arguments_);
    backward_.execute(stream_, backward_arguments_);
    stream_.wait();
  }
  // Weights change in each step of training.
  void bring_weights() {
    for (std::size_t i = 0; i < 2; ++i) {
      dnnl::reorder(master_[i], for_forward_[i]).execute(stream_, master_[i], for_forward_[i]);
      dnnl::reorder(master_[i], for_backward_[i]).execute(stream_, master_[i], for_backward_[i]);
    }
    stream_.wait();
  }

  std::int64_t workspace_bytes() const { return workspace_bytes_; }  // from forward to backward
  std::int64_t scratch_bytes() const { return scratch_bytes_; }      // while one of them runs

 private:
  dnnl::memory make(const dnnl::memory::desc& d) {
    dnnl::memory out(d, engine_);
    zero(out);
    return out;
  }
  static void zero(const dnnl::memory& m) {
    auto* data = static_cast<std::uint8_t*>(m.get_data_handle());
    std::fill_n(data, m.get_desc().get_size(), std::uint8_t{0});
  }

  void set_arguments(const dnnl::lstm_forward::primitive_desc& f, const dnnl::lstm_backward::primitive_desc& b) {
    const std::unordered_map<int, dnnl::memory> shared = {
        {DNNL_ARG_SRC_LAYER, make(f.src_layer_desc())},   {DNNL_ARG_BIAS, make(f.bias_desc())},
        {DNNL_ARG_DST_LAYER, make(f.dst_layer_desc())},   {DNNL_ARG_DST_ITER, make(f.dst_iter_desc())},
        {DNNL_ARG_DST_ITER_C, make(f.dst_iter_c_desc())}, {DNNL_ARG_WORKSPACE, make(f.workspace_desc())}};
    forward_arguments_ = backward_arguments_ = shared;
    forward_arguments_.insert({{DNNL_ARG_WEIGHTS_LAYER, for_forward_[0]},
                               {DNNL_ARG_WEIGHTS_ITER, for_forward_[1]},
                               {DNNL_ARG_SCRATCHPAD, make(f.scratchpad_desc())}});
    backward_arguments_.insert({{DNNL_ARG_WEIGHTS_LAYER, for_backward_[0]},
                                {DNNL_ARG_WEIGHTS_ITER, for_backward_[1]},
                                {DNNL_ARG_DIFF_SRC_LAYER, make(b.diff_src_layer_desc())},
                                {DNNL_ARG_DIFF_WEIGHTS_LAYER, gradients_[0]},
                                {DNNL_ARG_DIFF_WEIGHTS_ITER, gradients_[1]},
                                {DNNL_ARG_DIFF_BIAS, make(b.diff_bias_desc())},
                                {DNNL_ARG_DIFF_DST_LAYER, make(b.diff_dst_layer_desc())},
                                {DNNL_ARG_DIFF_DST_ITER, make(b.diff_dst_iter_desc())},
                                {DNNL_ARG_DIFF_DST_ITER_C, make(b.diff_dst_iter_c_desc())},
                                {DNNL_ARG_SCRATCHPAD, make(b.scratchpad_desc())}});
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::lstm_forward forward_;
  dnnl::lstm_backward backward_;
  std::vector<dnnl::memory> master_, for_forward_, for_backward_, gradients_;
  std::unordered_map<int, dnnl::memory> forward_arguments_, backward_arguments_;
  std::int64_t workspace_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace neap::bench
