// Chunks of recurrent layers on CUDA: the input's product over all steps at once, then a product with the state and a
// cell a step; backward the same way, ending with one product a weight. Products are cuBLASLt's. With x and weights of
// bf16 (LSTM, GRU) the state and the gradients of the sums are rounded to bf16 for them; all else stays f32. Where they
// fit, all steps of an LSTM's chunk are one launch (lstm_persistent.h).
#include <optional>
#include <utility>

#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/product_cuda.h"
#include "ops/reduce/columns_cuda.h"
#include "ops/rnn/chunk_cell.cuh"
#include "ops/rnn/chunk_op.h"
#include "ops/rnn/chunk_regate.cuh"
#include "ops/rnn/lstm_persistent.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

// Pieces of a workspace, one behind the other.
class Pieces {
 public:
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t at = bytes_;
    bytes_ += align_up(bytes, 256);
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

float* piece(const Buffers& b, std::int64_t at) { return reinterpret_cast<float*>(b.workspace + at); }

void copy_floats(float* dst, const float* src, std::int64_t n, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(n * kFloat);
  if (src == nullptr) {
    NEAP_CHECK_CUDA(cudaMemsetAsync(dst, 0, bytes, stream));
  } else if (dst != src) {
    NEAP_CHECK_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream));
  }
}

void sum_floats(float* dst, const float* a, const float* b, std::int64_t n, cudaStream_t stream) {
  each("sum", n, stream, [=] __device__(std::int64_t i) { dst[i] = a[i] + b[i]; });
}

void narrow_floats(Bf16* dst, const float* src, std::int64_t n, cudaStream_t stream) {
  each("narrow", n, stream, [=] __device__(std::int64_t i) { dst[i] = narrow<Bf16>(src[i]); });
}

void widen_floats(float* dst, const Bf16* src, std::int64_t n, cudaStream_t stream) {
  each("widen", n, stream, [=] __device__(std::int64_t i) { dst[i] = widen(src[i]); });
}

Bf16* narrow_piece(const Buffers& b, std::int64_t at) { return reinterpret_cast<Bf16*>(b.workspace + at); }

class CudaChunk final : public Kernel {
 public:
  CudaChunk(const ChunkShape& s, DType type)
      : s_(s),
        is_narrow_(type == DType::kBF16),
        is_one_launch_(is_narrow_ && !s.is_masked && fits_one_launch(s)),
        columns_(s.weight_blocks() * s.hidden),
        input_(by_weight({type, s.is_tf32}, s.rows(), s.input, columns_, false)),
        state_(by_weight({type, s.is_tf32}, s.batch, s.hidden, columns_, s.kind != CellKind::kGru)) {
    product_at_ = pieces_.add(std::max(input_.workspace_bytes(), state_.workspace_bytes()));
    sums_at_ = pieces_.add(s.kind == CellKind::kTanh || s.kind == CellKind::kRelu ? 0 : s.rows() * columns_ * kFloat);
    by_state_at_ = pieces_.add(s.kind == CellKind::kGru ? s.batch * columns_ * kFloat : 0);
    cell_at_ = pieces_.add(s.kind == CellKind::kLstm ? s.batch * s.hidden * kFloat : 0);
    narrow_at_ = pieces_.add(is_one_launch_ ? one_launch_bytes(s)
                             : is_narrow_   ? byte_size(type, s.batch * s.hidden)
                                            : 0);
    state_at_ = pieces_.add(s.is_masked ? s.batch * s.hidden * kFloat : 0);
  }
  std::int64_t workspace_bytes() const override { return pieces_.bytes(); }
  std::string numerics() const override {
    return input_.numerics() + (is_one_launch_ ? " one launch" : state_.numerics());
  }

  void launch(const Buffers& buffers, Stream& on) override {
    const ChunkForward b = chunk_forward_buffers(buffers);
    const cudaStream_t stream = handle_of(on);
    float* sums = sums_of(buffers, b);
    input_.run(b.x, b.w_ih, nullptr, sums, buffers.workspace + product_at_, stream);
    if (is_one_launch_) return run_lstm(s_, b, sums, buffers.workspace + narrow_at_, stream);
    const std::int64_t plane = s_.batch * s_.hidden;
    if (is_narrow_ && b.h0 != nullptr) narrow_floats(narrow_piece(buffers, narrow_at_), b.h0, plane, stream);
    for (std::int64_t i = 0; i < s_.steps; ++i) step(buffers, b, sums, i, stream);
    const std::int64_t last = s_.time(s_.steps - 1) * plane;
    const float* state = s_.is_masked ? piece(buffers, state_at_) : b.h + last;
    if (b.h_last != nullptr) copy_floats(b.h_last, state, plane, stream);
    if (b.c_last != nullptr) {
      copy_floats(b.c_last, b.c != nullptr ? b.c + last : piece(buffers, cell_at_), plane, stream);
    }
  }

 private:
  // Where the products with the input go, and the gates of an LSTM or the outputs of a plain cell take their place.
  float* sums_of(const Buffers& buffers, const ChunkForward& b) const {
    if (s_.kind == CellKind::kTanh || s_.kind == CellKind::kRelu) return b.h;
    return s_.kind == CellKind::kLstm && b.gates != nullptr ? b.gates : piece(buffers, sums_at_);
  }

  void step(const Buffers& buffers, const ChunkForward& b, float* sums, std::int64_t i, cudaStream_t stream) const {
    const std::int64_t plane = s_.batch * s_.hidden;
    const std::int64_t t = s_.time(i);
    const bool is_gru = s_.kind == CellKind::kGru;
    float* kept = s_.is_masked ? piece(buffers, state_at_) : nullptr;
    const float* h_prev = i == 0 ? b.h0 : s_.is_masked ? kept : b.h + s_.time(i - 1) * plane;
    float* here = sums + t * s_.batch * columns_;
    float* by_state = is_gru ? piece(buffers, by_state_at_) : nullptr;
    if (h_prev != nullptr) {
      const void* state = is_narrow_ ? static_cast<const void*>(narrow_piece(buffers, narrow_at_)) : h_prev;
      state_.run(state, b.w_hh, nullptr, is_gru ? by_state : here, buffers.workspace + product_at_, stream);
    }
    float* cell = piece(buffers, cell_at_);
    const float* c_prev = i == 0 ? b.c0 : b.c != nullptr ? b.c + s_.time(i - 1) * plane : cell;
    float* gates = b.gates != nullptr ? b.gates + t * s_.batch * 4 * s_.hidden : nullptr;
    run_cell({.kind = s_.kind,
              .batch = s_.batch,
              .hidden = s_.hidden,
              .b_ih = b.b_ih,
              .b_hh = b.b_hh,
              .by_input = here,
              .by_state = h_prev != nullptr ? by_state : nullptr,
              .h_prev = h_prev,
              .c_prev = c_prev,
              .gates = s_.kind == CellKind::kLstm ? here : gates,
              .h = b.h + t * plane,
              .c = b.c != nullptr ? b.c + t * plane : cell,
              .h_narrow = is_narrow_ ? narrow_piece(buffers, narrow_at_) : nullptr,
              .mask = {b.lengths, s_.start + t},
              .state = kept},
             stream);
  }

  ChunkShape s_;
  bool is_narrow_, is_one_launch_;
  std::int64_t columns_;
  CudaProduct input_, state_;
  Pieces pieces_;
  std::int64_t product_at_ = 0, sums_at_ = 0, by_state_at_ = 0, cell_at_ = 0, narrow_at_ = 0, state_at_ = 0;
};

// d^T x over `rows` rows: the gradient of a weight.
CudaProduct for_weight(const ChunkFactors& of, std::int64_t rows, std::int64_t columns, std::int64_t width, bool adds) {
  return CudaProduct({.m = columns,
                      .n = width,
                      .k = rows,
                      .a = dense_matrix(columns, rows, true),
                      .b = dense_matrix(rows, width, false),
                      .adds = adds,
                      .in = of.type,
                      .tf32 = of.tf32});
}

// d w for `rows` rows of the sums' gradients.
CudaProduct through_weight(const ChunkFactors& of, std::int64_t rows, std::int64_t columns, std::int64_t width) {
  return CudaProduct({.m = rows,
                      .n = width,
                      .k = columns,
                      .a = dense_matrix(rows, columns, false),
                      .b = dense_matrix(columns, width, false),
                      .in = of.type,
                      .tf32 = of.tf32});
}

class CudaChunkGrad final : public Kernel {
 public:
  CudaChunkGrad(const ChunkShape& s, const ChunkGradTypes& types)
      : s_(s),
        is_narrow_(types.products == DType::kBF16),
        is_dh_narrow_(types.is_dh_narrow),
        is_one_launch_(is_narrow_ && !s.is_masked && fits_one_launch(s)),
        columns_(s.weight_blocks() * s.hidden),
        bias_(s.rows(), columns_),
        to_state_(through_weight({types.products, s.is_tf32}, s.batch, columns_, s.hidden)),
        to_input_(through_weight({types.products, s.is_tf32}, s.rows(), columns_, s.input)),
        dw_ih_(for_weight({types.products, s.is_tf32}, s.rows(), columns_, s.input, types.adds_ih)),
        dw_hh_first_(
            for_weight({types.products, s.is_tf32}, s.batch, columns_, s.hidden, types.adds_hh || s.steps > 1)) {
    const std::int64_t others = s.is_masked ? s.rows() : s.rows() - s.batch;
    if (others > 0) dw_hh_.emplace(for_weight({types.products, s.is_tf32}, others, columns_, s.hidden, types.adds_hh));
    if (!s.keeps_gates && s.gate_blocks() > 0) regate_.emplace(s, ChunkFactors{types.products, s.is_tf32});
    std::int64_t most = is_narrow_ ? bf16_column_bytes(s.rows(), columns_) : bias_.bytes(1);
    for (const CudaProduct* p : {&to_state_, &to_input_, &dw_ih_, &dw_hh_first_, dw_hh_ ? &*dw_hh_ : &dw_ih_}) {
      most = std::max(most, p->workspace_bytes());
    }
    if (regate_) most = std::max(most, regate_->product_bytes());
    product_at_ = pieces_.add(most);
    by_input_at_ = pieces_.add(byte_size(types.products, s.rows() * columns_));
    states_at_ = pieces_.add(is_narrow_ ? byte_size(types.products, (s.rows() + s.batch) * s.hidden) : 0);
    before_at_ = pieces_.add(s.is_masked ? s.rows() * s.hidden * kFloat : 0);
    by_state_at_ =
        s.kind == CellKind::kGru ? pieces_.add(byte_size(types.products, s.rows() * columns_)) : by_input_at_;
    gates_at_ = pieces_.add(regate_ ? regate_->gate_bytes() : 0);
    gate_sums_at_ = pieces_.add(regate_ ? regate_->sum_bytes() : 0);
    if (is_one_launch_) {
      dh_at_ = pieces_.add(one_launch_bytes(s));
      return;
    }
    wide_dh_at_ = pieces_.add(is_dh_narrow_ ? s.rows() * s.hidden * kFloat : 0);
    dh_at_ = pieces_.add(s.batch * s.hidden * kFloat);
    by_weights_at_ = pieces_.add(s.batch * s.hidden * kFloat);
    dc_at_ = pieces_.add(s.kind == CellKind::kLstm ? s.batch * s.hidden * kFloat : 0);
  }
  std::int64_t workspace_bytes() const override { return pieces_.bytes(); }
  std::string numerics() const override {
    return (is_one_launch_ ? "one launch" : to_state_.numerics()) + to_input_.numerics() + dw_ih_.numerics() +
           dw_hh_first_.numerics() + (dw_hh_ ? dw_hh_->numerics() : "") + (regate_ ? regate_->numerics() : "");
  }

  void launch(const Buffers& buffers, Stream& on) override {
    const cudaStream_t stream = handle_of(on);
    const ChunkBackward given = chunk_backward_buffers(buffers);
    if (s_.is_masked && given.h != nullptr) find_states(buffers, given, stream);
    const ChunkBackward b = with_gates(buffers, given, stream);
    if (is_one_launch_) {
      run_lstm_grad(s_, b, is_dh_narrow_, buffers.workspace + by_input_at_, buffers.workspace + dh_at_, stream);
    } else {
      run_steps(buffers, with_wide_dh(buffers, b, stream), stream);
    }
    std::byte* scratch = buffers.workspace + product_at_;
    const float* by_input = piece(buffers, by_input_at_);
    const float* by_state = piece(buffers, by_state_at_);
    if (b.dx != nullptr) to_input_.run(by_input, b.w_ih, nullptr, b.dx, scratch, stream);
    if (b.db_ih != nullptr) bias(by_input, b.db_ih_in, b.db_ih, scratch, stream);
    if (b.db_hh != nullptr) bias(by_state, b.db_hh_in, b.db_hh, scratch, stream);
    if (b.dw_ih != nullptr && b.x != nullptr) {
      if (b.dw_ih_in != nullptr) copy_floats(b.dw_ih, b.dw_ih_in, columns_ * s_.input, stream);
      dw_ih_.run(by_input, b.x, nullptr, b.dw_ih, scratch, stream);
    }
    if (b.dw_hh == nullptr || b.h == nullptr) return;
    if (is_narrow_) return narrow_state_weight(buffers, b, scratch, stream);
    state_weight(b, by_state, states(buffers, b), b.h0, scratch, stream);
  }

 private:
  void find_states(const Buffers& buffers, const ChunkBackward& b, cudaStream_t stream) const {
    each("recurrent_states", s_.batch * s_.hidden, stream,
         StatesBefore{s_.steps, s_.batch, s_.hidden, s_.start, s_.reverse, b.lengths, b.h0, b.h,
                      piece(buffers, before_at_)});
  }
  // Those that steps have read: with lengths before each step, else behind it, where the next one finds them.
  const float* states(const Buffers& buffers, const ChunkBackward& b) const {
    return s_.is_masked ? piece(buffers, before_at_) : b.h;
  }

  ChunkBackward with_gates(const Buffers& buffers, const ChunkBackward& b, cudaStream_t stream) const {
    if (!regate_) return b;
    ChunkBackward out = b;
    float* gates = piece(buffers, gates_at_);
    float* sums = piece(buffers, gate_sums_at_);
    std::byte* scratch = buffers.workspace + product_at_;
    out.gates = gates;
    if (is_narrow_) {
      const auto [h, h0] = narrow_states(buffers, b, stream);
      regate_->run<Bf16>(b, h, h0, gates, sums, scratch, stream);
    } else {
      regate_->run<float>(b, states(buffers, b), b.h0, gates, sums, scratch, stream);
    }
    return out;
  }

  ChunkBackward with_wide_dh(const Buffers& buffers, const ChunkBackward& b, cudaStream_t stream) const {
    if (!is_dh_narrow_) return b;
    ChunkBackward out = b;
    out.dh = piece(buffers, wide_dh_at_);
    widen_floats(piece(buffers, wide_dh_at_), reinterpret_cast<const Bf16*>(b.dh), s_.rows() * s_.hidden, stream);
    return out;
  }

  void run_steps(const Buffers& buffers, const ChunkBackward& b, cudaStream_t stream) const {
    const std::int64_t plane = s_.batch * s_.hidden;
    float* dh = piece(buffers, dh_at_);
    float* dc = piece(buffers, dc_at_);
    copy_floats(dh, b.dh_last, plane, stream);
    if (s_.kind == CellKind::kLstm) copy_floats(dc, b.dc_last, plane, stream);
    for (std::int64_t i = s_.steps - 1; i >= 0; --i) step(buffers, b, i, stream);
    if (b.dh0 != nullptr) sum_floats(b.dh0, dh, piece(buffers, by_weights_at_), plane, stream);
    if (b.dc0 != nullptr) copy_floats(b.dc0, dc, plane, stream);
  }

  // `d` is bf16 where products are.
  void bias(const float* d, const float* start, float* out, std::byte* scratch, cudaStream_t stream) const {
    if (!is_narrow_) return column_sums_cuda(bias_, d, start, out, scratch, stream);
    if (start != nullptr) copy_floats(out, start, columns_, stream);
    bf16_column_sums_cuda(bias_.rows, bias_.c, d, start != nullptr, out, scratch, stream);
  }

  // h and h0, rounded for products.
  std::pair<Bf16*, Bf16*> narrow_states(const Buffers& buffers, const ChunkBackward& b, cudaStream_t stream) const {
    Bf16* h = narrow_piece(buffers, states_at_);
    Bf16* h0 = b.h0 != nullptr ? h + s_.rows() * s_.hidden : nullptr;
    narrow_floats(h, states(buffers, b), s_.rows() * s_.hidden, stream);
    if (h0 != nullptr) narrow_floats(h0, b.h0, s_.batch * s_.hidden, stream);
    return {h, h0};
  }

  void narrow_state_weight(const Buffers& buffers, const ChunkBackward& b, std::byte* scratch,
                           cudaStream_t stream) const {
    const auto [h, h0] = narrow_states(buffers, b, stream);
    state_weight(b, narrow_piece(buffers, by_state_at_), h, h0, scratch, stream);
  }

  void step(const Buffers& buffers, const ChunkBackward& b, std::int64_t i, cudaStream_t stream) const {
    const std::int64_t plane = s_.batch * s_.hidden;
    const std::int64_t t = s_.time(i);
    const auto at = [&](const float* all, std::int64_t width) {
      return all != nullptr ? all + t * s_.batch * width : nullptr;
    };
    const auto before = [&](const float* all, const float* first) {
      return i == 0 ? first : all != nullptr ? all + s_.time(i - 1) * plane : nullptr;
    };
    const float* h_prev = s_.is_masked ? at(piece(buffers, before_at_), s_.hidden) : before(b.h, b.h0);
    float* dh = piece(buffers, dh_at_);
    const std::int64_t sums_here = t * s_.batch * columns_;
    Bf16* narrow = is_narrow_ ? narrow_piece(buffers, by_input_at_) + sums_here : nullptr;
    Bf16* narrow_state = is_narrow_ ? narrow_piece(buffers, by_state_at_) + sums_here : nullptr;
    float* by_state = piece(buffers, by_state_at_) + (is_narrow_ ? 0 : sums_here);
    run_cell_slope({.kind = s_.kind,
                    .batch = s_.batch,
                    .hidden = s_.hidden,
                    .dh_out = at(b.dh, s_.hidden),
                    .by_weights = i + 1 < s_.steps ? piece(buffers, by_weights_at_) : nullptr,
                    .gates = at(b.gates, 4 * s_.hidden),
                    .h = at(b.h, s_.hidden),
                    .c = at(b.c, s_.hidden),
                    .h_prev = h_prev,
                    .c_prev = before(b.c, b.c0),
                    .dh = dh,
                    .dc = piece(buffers, dc_at_),
                    .by_input = piece(buffers, by_input_at_) + (is_narrow_ ? 0 : sums_here),
                    .by_state = by_state,
                    .narrow = narrow,
                    .narrow_state = narrow_state,
                    .mask = {b.lengths, s_.start + t}},
                   stream);
    // What reaches the state before the first step is only needed if somebody asks for it.
    if (i > 0 || b.dh0 != nullptr) {
      float* to = piece(buffers, by_weights_at_);
      const void* d = is_narrow_ ? static_cast<const void*>(narrow_state) : by_state;
      to_state_.run(d, b.w_hh, nullptr, to, buffers.workspace + product_at_, stream);
    }
  }

  // The state that a step has read is the output of the step before it, for the first one h0; with lengths h has it.
  template <class T>
  void state_weight(const ChunkBackward& b, const T* by_state, const T* h, const T* h0, std::byte* scratch,
                    cudaStream_t stream) const {
    const std::int64_t sums = s_.batch * columns_;
    const std::int64_t plane = s_.batch * s_.hidden;
    const std::int64_t first = s_.time(0);
    if (b.dw_hh_in != nullptr) copy_floats(b.dw_hh, b.dw_hh_in, columns_ * s_.hidden, stream);
    if (s_.is_masked) return dw_hh_->run(by_state, h, nullptr, b.dw_hh, scratch, stream);
    if (dw_hh_) {
      dw_hh_->run(by_state + (s_.reverse ? 0 : sums), h + (s_.reverse ? plane : 0), nullptr, b.dw_hh, scratch, stream);
    }
    if (h0 != nullptr) {
      dw_hh_first_.run(by_state + first * sums, h0, nullptr, b.dw_hh, scratch, stream);
    } else if (!dw_hh_ && b.dw_hh_in == nullptr) {
      copy_floats(b.dw_hh, nullptr, columns_ * s_.hidden, stream);
    }
  }

  ChunkShape s_;
  bool is_narrow_, is_dh_narrow_, is_one_launch_;
  std::int64_t columns_;
  ColumnParts bias_;
  CudaProduct to_state_, to_input_, dw_ih_, dw_hh_first_;
  std::optional<CudaProduct> dw_hh_;
  std::optional<ChunkRegate> regate_;
  Pieces pieces_;
  std::int64_t product_at_ = 0, by_input_at_ = 0, by_state_at_ = 0, dh_at_ = 0, by_weights_at_ = 0, dc_at_ = 0,
               states_at_ = 0, before_at_ = 0, wide_dh_at_ = 0, gates_at_ = 0, gate_sums_at_ = 0;
};

const char* reason_against(const ChunkShape& s, DType type) {
  const bool has_gates = s.kind == CellKind::kLstm || s.kind == CellKind::kGru;
  if (type == DType::kBF16 && (!has_gates || s.hidden % 8 != 0)) return "bf16 only of LSTM and GRU";
  if (s.rows() == 0 || s.hidden == 0 || s.input == 0) return "nothing to compute";
  return nullptr;
}

}  // namespace

Prepared chunk_cuda(const ChunkShape& shape, DType type) {
  if (const char* why = reason_against(shape, type)) return Declined{why};
  return std::make_unique<CudaChunk>(shape, type);
}

Prepared chunk_grad_cuda(const ChunkShape& shape, const ChunkGradTypes& types) {
  if (const char* why = reason_against(shape, types.products)) return Declined{why};
  return std::make_unique<CudaChunkGrad>(shape, types);
}

}  // namespace neap::ops
