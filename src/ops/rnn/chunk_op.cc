#include "ops/rnn/chunk_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/cpu/bf16.h"
#include "device/geared_kernel.h"
#include "neap/error.h"
#include "ops/convert_kernel.h"
#include "ops/product_math.h"
#include "recurrent/gear.h"

namespace neap::ops {
namespace {

CellKind kind_of(ChunkFamily family, const Attrs& attrs) {
  if (family == ChunkFamily::kLstm) return CellKind::kLstm;
  if (family == ChunkFamily::kGru) return CellKind::kGru;
  const std::string activation = attrs.text("activation", "tanh");
  if (activation == "tanh") return CellKind::kTanh;
  if (activation == "relu") return CellKind::kRelu;
  throw UserError(fmt::format("activation '{}' is neither tanh nor relu", activation));
}

void expect(const OpCall& call, std::size_t i, const char* what, DType dtype, const Shape& shape) {
  if (!call.has(i)) return;
  const TensorType& got = call.in(i);
  bool fits = got.dtype == dtype && got.shape.rank() == shape.rank();
  for (int a = 0; fits && a < shape.rank(); ++a) {
    fits = got.shape[a] == shape[a] || !got.shape[a].is_number() || !shape[a].is_number();
  }
  if (!fits) throw UserError(fmt::format("{} is {}, not {}{}", what, got.text(), name(dtype), shape.text()));
}

std::int64_t weight_blocks(ChunkFamily family) {
  return family == ChunkFamily::kLstm ? 4 : family == ChunkFamily::kGru ? 3 : 1;
}

bool keeps_gates(const Attrs& attrs) {
  const std::string gates = attrs.text("gates", "keep");
  if (gates != "keep" && gates != "recompute" && gates != "cudnn") {
    throw UserError(fmt::format("gates '{}': take keep, recompute or cudnn", gates));
  }
  return gates == "keep";
}

// Backward runs the chunk again from its inputs: neither gates nor cells are outputs.
bool runs_again(const Attrs& attrs) { return attrs.text("gates", "keep") == "cudnn"; }

// With the sizes that are known when kernels are prepared.
ChunkShape shape_of(ChunkFamily family, const OpCall& call, const Shape& rows, std::size_t w_ih, bool is_masked) {
  return {.kind = kind_of(family, call.attrs),
          .steps = rows.size(0),
          .batch = rows.size(1),
          .input = call.shape(w_ih).size(1),
          .hidden = call.shape(w_ih).size(0) / weight_blocks(family),
          .reverse = call.attrs.integer("reverse", 0) != 0,
          .is_masked = is_masked,
          .start = call.attrs.integer("start", 0),
          .most = call.attrs.integer("unroll", 0),
          .keeps_gates = keeps_gates(call.attrs),
          .is_tf32 = is_tf32(call.attrs)};
}

ChunkShape forward_shape(ChunkFamily family, const OpCall& call) {
  return shape_of(family, call, call.shape(ChunkIn::kX), ChunkIn::kWIh, call.has(ChunkIn::kLengths));
}

// An LSTM's gradient reads h only where w_hh is trained, but always c; both have the same shape.
Shape state_rows(ChunkFamily family, const OpCall& call) {
  if (runs_again(call.attrs)) {
    const Shape& x = call.shape(ChunkGradIn::kX);
    return {x[0], x[1], call.shape(ChunkGradIn::kWHh)[1]};
  }
  return call.shape(family == ChunkFamily::kLstm ? ChunkGradIn::kC : ChunkGradIn::kH);
}

ChunkShape backward_shape(ChunkFamily family, const OpCall& call) {
  return shape_of(family, call, state_rows(family, call), ChunkGradIn::kWIh, call.has(ChunkGradIn::kLengths));
}

template <class T>
T* optional_out(const Buffers& b, std::size_t i) {
  return i < b.outputs.size() ? b.out<T>(i) : nullptr;
}

// The state that came in is also the last row of what the chunk before has put out, which is kept anyway: a view of it
// instead of another tensor to save. (Not with lengths: then the output may be zero where the state is not.)
Value kept_state(GradientCall& c, std::size_t input, std::size_t handed, std::size_t whole) {
  const Value state = c.x(input);
  if (!state || c.x(ChunkIn::kLengths)) return state;
  const NodeId producer = c.g.graph().at(state).producer;
  if (!producer || c.g.graph().at(producer).op != c.node.op) return state;
  const Node before = c.g.graph().at(producer);
  if (before.outputs.at(handed) != state || before.attrs.integer("reverse", 0) != c.node.attrs.integer("reverse", 0)) {
    return state;
  }
  const bool is_reverse = c.node.attrs.integer("reverse", 0) != 0;
  const std::int64_t start = is_reverse ? 0 : -1;
  const std::int64_t end = is_reverse ? 1 : INT64_MAX;
  const Value last =
      c.g("slice", {before.outputs[whole]}, {{"axes", Ints{0}}, {"starts", Ints{start}}, {"ends", Ints{end}}}, "last");
  return c.g("squeeze", {last}, {{"axes", Ints{0}}}, "state");
}

}  // namespace

ChunkForward chunk_forward_buffers(const Buffers& b) {
  using In = ChunkIn;
  using Out = ChunkOut;
  return {.x = b.in<float>(In::kX),
          .w_ih = b.in<float>(In::kWIh),
          .w_hh = b.in<float>(In::kWHh),
          .b_ih = b.in<float>(In::kBIh),
          .b_hh = b.in<float>(In::kBHh),
          .lengths = b.in<std::int32_t>(In::kLengths),
          .h0 = b.in<float>(In::kH0),
          .c0 = b.in<float>(In::kC0),
          .h = b.out<float>(Out::kH),
          .h_last = optional_out<float>(b, Out::kHLast),
          .gates = optional_out<float>(b, Out::kGates),
          .c = optional_out<float>(b, Out::kC),
          .c_last = optional_out<float>(b, Out::kCLast)};
}

ChunkBackward chunk_backward_buffers(const Buffers& b) {
  using In = ChunkGradIn;
  using Out = ChunkGradOut;
  return {.dh = b.in<float>(In::kDh),
          .dh_last = b.in<float>(In::kDhLast),
          .dc_last = b.in<float>(In::kDcLast),
          .x = b.in<float>(In::kX),
          .w_ih = b.in<float>(In::kWIh),
          .w_hh = b.in<float>(In::kWHh),
          .b_ih = b.in<float>(In::kBIh),
          .b_hh = b.in<float>(In::kBHh),
          .lengths = b.in<std::int32_t>(In::kLengths),
          .h0 = b.in<float>(In::kH0),
          .c0 = b.in<float>(In::kC0),
          .h = b.in<float>(In::kH),
          .c = b.in<float>(In::kC),
          .gates = b.in<float>(In::kGates),
          .dw_ih_in = b.in<float>(In::kDWIh),
          .dw_hh_in = b.in<float>(In::kDWHh),
          .db_ih_in = b.in<float>(In::kDBIh),
          .db_hh_in = b.in<float>(In::kDBHh),
          .dw_ih = b.out<float>(Out::kDWIh),
          .dw_hh = b.out<float>(Out::kDWHh),
          .db_ih = b.out<float>(Out::kDBIh),
          .db_hh = b.out<float>(Out::kDBHh),
          .dx = b.out<float>(Out::kDx),
          .dh0 = b.out<float>(Out::kDh0),
          .dc0 = optional_out<float>(b, Out::kDc0)};
}

Types infer_chunk(ChunkFamily family, const OpCall& call) {
  using In = ChunkIn;
  kind_of(family, call.attrs);
  keeps_gates(call.attrs);
  const TensorType& x = call.in(In::kX);
  const TensorType& w_hh = call.in(In::kWHh);
  if (call.attrs.integer("unroll", 0) < 0) throw UserError("unroll must not be negative");
  if (x.dtype != DType::kF32 || x.shape.rank() != 3) throw UserError("x must be f32[steps,batch,input]");
  if (w_hh.shape.rank() != 2) throw UserError("w_hh must be a matrix");
  if (x.shape[0].is_number() && x.shape[0].number() < 1) throw UserError("a sequence has at least one time step");
  const Dim hidden = w_hh.shape[1];
  const Dim rows = Dim(weight_blocks(family)) * hidden;
  const Dim batch = x.shape[1];
  call.in(In::kWIh);
  expect(call, In::kWHh, "w_hh", DType::kF32, {rows, hidden});
  expect(call, In::kWIh, "w_ih", DType::kF32, {rows, x.shape[2]});
  expect(call, In::kBIh, "b_ih", DType::kF32, {rows});
  expect(call, In::kBHh, "b_hh", DType::kF32, {rows});
  expect(call, In::kLengths, "lengths", DType::kI32, {batch});
  expect(call, In::kH0, "h0", DType::kF32, {batch, hidden});
  expect(call, In::kC0, "c0", DType::kF32, {batch, hidden});
  const TensorType states = {DType::kF32, {x.shape[0], batch, hidden}};
  const TensorType last = {DType::kF32, {batch, hidden}};
  const TensorType gates = {DType::kF32, {x.shape[0], batch, Dim(4) * hidden}};
  if (runs_again(call.attrs)) {
    if (family != ChunkFamily::kLstm) throw UserError("gates 'cudnn' is for LSTM layers");
    const TensorType none = {DType::kF32, {Dim(0)}};
    return {states, last, none, none, last};
  }
  if (family == ChunkFamily::kLstm) return {states, last, gates, states, last};
  if (family == ChunkFamily::kGru) return {states, last, gates};
  return {states, last};
}

Types infer_chunk_grad(ChunkFamily family, const OpCall& call) {
  using In = ChunkGradIn;
  const Shape rows = state_rows(family, call);
  const TensorType& w_ih = call.in(In::kWIh);
  const TensorType& w_hh = call.in(In::kWHh);
  if (rows.rank() != 3 || w_ih.shape.rank() != 2 || w_hh.shape.rank() != 2) throw UserError("bad ranks");
  const TensorType bias = {DType::kF32, {w_ih.shape[0]}};
  const TensorType last = {DType::kF32, {rows[1], rows[2]}};
  expect(call, In::kDh, "dh", DType::kF32, rows);
  expect(call, In::kDhLast, "dh_last", DType::kF32, last.shape);
  expect(call, In::kDcLast, "dc_last", DType::kF32, last.shape);
  expect(call, In::kX, "x", DType::kF32, {rows[0], rows[1], w_ih.shape[1]});
  expect(call, In::kDWIh, "dw_ih", DType::kF32, w_ih.shape);
  expect(call, In::kDWHh, "dw_hh", DType::kF32, w_hh.shape);
  expect(call, In::kDBIh, "db_ih", DType::kF32, bias.shape);
  expect(call, In::kDBHh, "db_hh", DType::kF32, bias.shape);
  const TensorType dx = {DType::kF32, {rows[0], rows[1], w_ih.shape[1]}};
  Types out = {w_ih, w_hh, bias, bias, dx, last};
  if (family == ChunkFamily::kLstm) out.push_back(last);
  return out;
}

Values chunk_gradient(ChunkFamily family, std::string_view grad_op, GradientCall& c) {
  using In = ChunkIn;
  using Out = ChunkOut;
  const bool is_lstm = family == ChunkFamily::kLstm;
  if ((family != ChunkFamily::kRnn && c.dy[Out::kGates]) || (is_lstm && c.dy[Out::kC])) {
    throw UserError(fmt::format("{} '{}' has no gradient through its gates and cells; use its last cell",
                                c.node.op->name, c.node.name));
  }
  const auto sum = [&](std::size_t i) { return c.wants(i) ? c.take_sum(i) : Value{}; };
  const bool is_again = runs_again(c.node.attrs);
  const bool makes_gates = family != ChunkFamily::kRnn && !keeps_gates(c.node.attrs);
  const bool needs_h = !is_again && (!is_lstm || makes_gates || c.wants(In::kWHh));
  const auto kept = [&](std::size_t input, std::size_t handed, std::size_t whole) {
    return is_again ? c.x(input) : kept_state(c, input, handed, whole);
  };
  Values in = {c.dy[Out::kH],
               c.dy[Out::kHLast],
               makes_gates || c.wants(In::kWIh) ? c.x(In::kX) : Value{},
               c.x(In::kWIh),
               c.x(In::kWHh),
               c.x(In::kLengths),
               needs_h || is_again ? kept(In::kH0, Out::kHLast, Out::kH) : Value{},
               needs_h ? c.y(Out::kH) : Value{},
               sum(In::kWIh),
               sum(In::kWHh),
               sum(In::kBIh),
               sum(In::kBHh)};
  if (family != ChunkFamily::kRnn) in.push_back(makes_gates ? Value{} : c.y(Out::kGates));
  if (is_lstm) {
    in.insert(in.end(), {is_again ? Value{} : c.y(Out::kC), kept(In::kC0, Out::kCLast, Out::kC), c.dy[Out::kCLast]});
  }
  if (makes_gates) {
    in.resize(ChunkGradIn::kBIh);
    in.insert(in.end(), {c.x(In::kBIh), c.x(In::kBHh)});
  }
  using GradOut = ChunkGradOut;
  const Values d = c.g.add(grad_op, in, c.node.attrs);
  Values dx(c.node.inputs.size());
  const auto give = [&](std::size_t input, std::size_t output) {
    if (c.wants(input)) dx[input] = d[output];
  };
  give(In::kX, GradOut::kDx);
  give(In::kWIh, GradOut::kDWIh);
  give(In::kWHh, GradOut::kDWHh);
  give(In::kBIh, GradOut::kDBIh);
  give(In::kBHh, GradOut::kDBHh);
  give(In::kH0, GradOut::kDh0);
  if (is_lstm) give(In::kC0, GradOut::kDc0);
  return dx;
}

namespace {

// These inputs are of one type, all else is f32, but for the one that may be either.
std::optional<DType> product_type(const OpCall& call, std::initializer_list<std::size_t> products,
                                  std::size_t either = SIZE_MAX) {
  DType type = DType::kF32;
  for (const std::size_t i : products) type = call.has(i) ? call.in(i).dtype : type;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const bool is_product = std::find(products.begin(), products.end(), i) != products.end();
    const bool is_float = call.has(i) && neap::is_float(call.in(i).dtype);
    if (is_float && i != either && call.in(i).dtype != (is_product ? type : DType::kF32)) return std::nullopt;
  }
  for (const TensorType& t : call.outputs) {
    if (t.dtype == DType::kBF16) return std::nullopt;
  }
  return type;
}

constexpr const char* kMixture = "a mixture of types";

// Sets how products are taken; says why not, where they cannot. Weights' gradients are sums of pairs of rows, which
// must not go across steps.
const char* take_type(ChunkShape& shape, const std::optional<DType>& type) {
  if (!type) return kMixture;
  if (*type == DType::kF32) return nullptr;
  shape.is_bf16 = true;
  if (!has_bf16_products()) return "this CPU has no products of bf16";
  return shape.batch % 2 != 0 ? "the batch is odd" : nullptr;
}

}  // namespace

constexpr const char* kByCudnn = "the call asks for cuDNN";

Prepared chunk_simd(ChunkFamily family, const OpCall& call) {
  if (runs_again(call.attrs)) return Declined{kByCudnn};
  ChunkShape shape = forward_shape(family, call);
  const auto type = product_type(call, {ChunkIn::kX, ChunkIn::kWIh, ChunkIn::kWHh});
  if (const char* why = take_type(shape, type)) return Declined{why};
  const auto run = [shape](const Buffers& b, std::uint32_t gear) {
    run_forward(shape, chunk_forward_buffers(b), b.workspace, Gear::of(gear));
  };
  return std::make_unique<GearedFunction>(run, forward_workspace(shape));
}

Prepared chunk_on_cuda(ChunkFamily family, const OpCall& call) {
  if (chunk_cuda == nullptr) return not_linked();
  if (runs_again(call.attrs)) return Declined{kByCudnn};
  const auto type = product_type(call, {ChunkIn::kX, ChunkIn::kWIh, ChunkIn::kWHh});
  return type ? chunk_cuda(forward_shape(family, call), *type) : Declined{kMixture};
}

Prepared chunk_grad_on_cuda(ChunkFamily family, const OpCall& call) {
  if (chunk_grad_cuda == nullptr) return not_linked();
  if (runs_again(call.attrs)) return Declined{kByCudnn};
  using In = ChunkGradIn;
  const auto type = product_type(call, {In::kX, In::kWIh, In::kWHh}, In::kDh);
  if (!type) return Declined{kMixture};
  return chunk_grad_cuda(backward_shape(family, call),
                         {.products = *type,
                          .is_dh_narrow = call.has(In::kDh) && call.in(In::kDh).dtype == DType::kBF16,
                          .adds_ih = call.has(In::kDWIh),
                          .adds_hh = call.has(In::kDWHh)});
}

namespace {

// Why cuDNN's LSTM is not for this call; null: it is.
const char* reason_against_cudnn(ChunkFamily family, const ChunkShape& shape, const OpCall& call) {
  if (family != ChunkFamily::kLstm || !runs_again(call.attrs)) return "the call does not ask for cuDNN";
  return shape.is_masked || shape.reverse ? "cuDNN's runs whole sequences forwards" : nullptr;
}

}  // namespace

Prepared chunk_on_cudnn(ChunkFamily family, const OpCall& call) {
  if (lstm_cudnn == nullptr) return not_linked();
  const ChunkShape shape = forward_shape(family, call);
  if (const char* why = reason_against_cudnn(family, shape, call)) return Declined{why};
  return lstm_cudnn(shape);
}

Prepared chunk_grad_on_cudnn(ChunkFamily family, const OpCall& call) {
  if (lstm_grad_cudnn == nullptr) return not_linked();
  const ChunkShape shape = backward_shape(family, call);
  if (const char* why = reason_against_cudnn(family, shape, call)) return Declined{why};
  return lstm_grad_cudnn(shape);
}

Prepared chunk_ref(ChunkFamily family, const OpCall& call) {
  const ChunkShape shape = forward_shape(family, call);
  const bool is_again = runs_again(call.attrs);
  const auto run = [shape, is_again](const Buffers& b) {
    ChunkForward f = chunk_forward_buffers(b);
    if (is_again) f.gates = f.c = nullptr;
    run_forward_ref(shape, f, b.workspace);
  };
  return function_kernel(run, forward_workspace_ref(shape));
}

namespace {

// What is no operand of a product as f32.
OpCall with_wide_rest(const OpCall& call, std::initializer_list<std::size_t> products) {
  OpCall out = widened(call);
  for (const std::size_t i : products) out.inputs[i] = call.inputs[i];
  return out;
}

}  // namespace

Prepared chunk_grad_simd(ChunkFamily family, const OpCall& call) {
  if (runs_again(call.attrs)) return Declined{kByCudnn};
  const std::initializer_list<std::size_t> products = {ChunkGradIn::kX, ChunkGradIn::kWIh, ChunkGradIn::kWHh};
  const OpCall inner = with_wide_rest(call, products);
  if (!(inner.inputs == call.inputs) || !(inner.outputs == call.outputs)) {
    Prepared made = chunk_grad_simd(family, inner);
    auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&made);
    if (kernel == nullptr) return made;
    return converting_between(call, inner, std::move(*kernel), DeviceKind::kCpu);
  }
  ChunkShape shape = backward_shape(family, call);
  const auto type = product_type(call, products);
  if (const char* why = take_type(shape, type)) return Declined{why};
  const auto run = [shape](const Buffers& b, std::uint32_t gear) {
    run_backward(shape, chunk_backward_buffers(b), b.workspace, Gear::of(gear));
  };
  return std::make_unique<GearedFunction>(run, backward_workspace(shape));
}

namespace {

// The chunk once more, for its states, gates and cells; then its gradient.
Prepared chunk_grad_again_ref(ChunkShape shape) {
  shape.keeps_gates = true;
  const std::int64_t floats = shape.rows() * shape.hidden;
  const auto run = [shape, floats](const Buffers& b) {
    ChunkBackward g = chunk_backward_buffers(b);
    auto* const h = reinterpret_cast<float*>(b.workspace);
    float* const c = h + floats;
    float* const gates = c + floats;
    auto* const rest = reinterpret_cast<std::byte*>(gates + 4 * floats);
    run_forward_ref(shape,
                    {.x = g.x,
                     .w_ih = g.w_ih,
                     .w_hh = g.w_hh,
                     .b_ih = g.b_ih,
                     .b_hh = g.b_hh,
                     .h0 = g.h0,
                     .c0 = g.c0,
                     .h = h,
                     .gates = gates,
                     .c = c},
                    rest);
    g.h = h;
    g.c = c;
    g.gates = gates;
    run_backward_ref(shape, g, rest);
  };
  const std::int64_t rest = std::max(forward_workspace_ref(shape), backward_workspace_ref(shape));
  return function_kernel(run, 6 * floats * static_cast<std::int64_t>(sizeof(float)) + rest);
}

}  // namespace

Prepared chunk_grad_ref(ChunkFamily family, const OpCall& call) {
  const ChunkShape shape = backward_shape(family, call);
  if (runs_again(call.attrs)) {
    return shape.is_masked ? Prepared(Declined{"no lengths"}) : chunk_grad_again_ref(shape);
  }
  const auto run = [shape](const Buffers& b) { run_backward_ref(shape, chunk_backward_buffers(b), b.workspace); };
  return function_kernel(run, backward_workspace_ref(shape));
}

double chunk_flops(ChunkFamily family, const OpCall& call) {
  const ChunkShape s = forward_shape(family, call);
  return 2.0 * static_cast<double>(s.rows() * s.weight_blocks() * s.hidden) * static_cast<double>(s.input + s.hidden);
}

// Two products of the forward pass's size for each of its own, less those that nobody wants.
double chunk_grad_flops(ChunkFamily family, const OpCall& call) {
  const ChunkShape s = backward_shape(family, call);
  const double again = s.gate_blocks() > 0 && !s.keeps_gates ? 1 : 0;  // forward's products
  const double by_input = (call.has(ChunkGradIn::kX) ? 2 : 1) + again;
  return 2.0 * static_cast<double>(s.rows() * s.weight_blocks() * s.hidden) *
         (by_input * static_cast<double>(s.input) + (2.0 + again) * static_cast<double>(s.hidden));
}

}  // namespace neap::ops
