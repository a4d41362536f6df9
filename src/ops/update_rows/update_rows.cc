//   rest_update(param [rows, width], grad [n, width], m?, v?, hyper, kept?, ids, ids ...; rule, nesterov, first = 0)
//     -> kept: rows of the gradient, one a pick
//   rows_update(param, kept, m?, v?, hyper, ids, dy, ids, dy ...; rule, nesterov)
// Together they are `rule` (sgd_update, adam_update, adamw_update) of param with the gradient
// grad + embedding_grad(ids, dy) + embedding_grad(ids, dy) ..., to the bit. The first changes the rows that are in none
// of the ids, the second the others: so grad need not wait for dy. Nor need it be there as a whole: a call of the first
// has the gradient of the rows [first, first + n), and the calls hand on what they kept.
#include "ops/update_rows/update_rows.h"

#include <algorithm>

#include "ops/matmul/checks.h"
#include "ops/update/update.h"

namespace neap::ops {
namespace {

UpdateRule rule_of(const OpCall& call) {
  const std::string rule = call.attrs.text("rule", "");
  if (rule == "sgd_update") return call.has(2) ? UpdateRule::kMomentum : UpdateRule::kSgd;
  need(rule == "adam_update" || rule == "adamw_update", "rule must be sgd_update, adam_update or adamw_update");
  return UpdateRule::kAdam;
}

void check_state(const OpCall& call) {
  need_f32(call, 0);
  need(call.shape(0).rank() == 2, "takes a table, [rows, width]");
  const UpdateRule rule = rule_of(call);
  for (std::size_t i = 2; i < kHyper; ++i) {
    const bool has_it = i == 2 ? rule != UpdateRule::kSgd : rule == UpdateRule::kAdam;
    need(call.has(i) == has_it, "has the state that its rule needs, and no other");
    if (has_it) need(call.in(i) == call.in(0), "state must have the table's shape, f32");
  }
  need(call.attrs.integer("nesterov", 0) == 0 || rule == UpdateRule::kMomentum, "nesterov needs momentum");
  need(call.in(kHyper) == TensorType{DType::kF32, {8}}, "hyper must be f32[8]");
}

// The rows that all lookups pick, with the table's width.
Shape picked_shape(const OpCall& call, std::size_t first, std::size_t stride) {
  need(call.inputs.size() > first && (call.inputs.size() - first) % stride == 0, "takes lookups");
  Dim picks = 0;
  for (std::size_t i = first; i < call.inputs.size(); i += stride) {
    need_index(call, i);
    const Dim more = call.shape(i).elements();
    const bool is_known = picks.is_number() && more.is_number();
    picks = i == first ? more : is_known ? Dim(picks.number() + more.number()) : Dim::unknown();
  }
  return {picks, call.shape(0)[1]};
}

Types infer_rest(const OpCall& call) {
  check_state(call);
  need_f32(call, 1);
  const Shape& grad = call.shape(1);
  need(grad.rank() == 2 && grad[1] == call.shape(0)[1], "the gradient must have the table's width");
  const std::int64_t first = call.attrs.integer("first", 0);
  const bool is_static = grad.is_static() && call.shape(0).is_static();
  need(first >= 0 && (!is_static || first + grad.size(0) <= call.shape(0).size(0)), "takes rows of the table");
  const TensorType kept{DType::kF32, picked_shape(call, kKept + 1, 1)};
  if (call.has(kKept)) need(call.in(kKept) == kept, "what was kept must have a row a pick");
  return {kept};
}

Types infer_rows(const OpCall& call) {
  check_state(call);
  need_f32(call, 1);
  need_same_shape(call.shape(1), picked_shape(call, kHyper + 1, 2), "the gradient must have a row a pick");
  for (std::size_t i = kHyper + 1; i < call.inputs.size(); i += 2) {
    need_f32(call, i + 1);
    Shape dy = call.shape(i);
    dy.push_back(call.shape(0)[1]);
    need_same_shape(call.shape(i + 1), dy, "a lookup's gradient must have a row an id");
  }
  return {};
}

RowSteps steps_of(const UpdateRows& u, const Buffers& b) {
  RowSteps out{
      .rule = u.rule, .param = b.state<float>(0), .m = b.state<float>(2), .v = b.state<float>(3), .width = u.width};
  const auto* hyper = b.in<float>(kHyper);
  if (u.rule == UpdateRule::kAdam) {
    out.adam = adam_step(hyper, nullptr, u.decoupled);
  } else {
    out.sgd = sgd_step(hyper, nullptr, u.nesterov);
  }
  return out;
}

// The picks of all lookups, in order, in the workspace; dy is there in the second call.
PickedRow* picks_in_order(const UpdateRows& u, const Buffers& b) {
  auto* picks = reinterpret_cast<PickedRow*>(b.workspace);
  std::int32_t place = 0;
  for (std::size_t l = 0; l < u.lookups.size(); ++l) {
    check_indices("embedding", u.lookups[l], u.ids(b, l));
    const float* dy = u.dy(b, l);
    for (std::int64_t i = 0; i < u.lookups[l].count; ++i, ++place) {
      picks[place] = {.row = u.lookups[l].at(u.ids(b, l), i),
                      .place = place,
                      .lookup = static_cast<std::int32_t>(l),
                      .dy = dy != nullptr ? dy + i * u.width : nullptr};
    }
  }
  std::sort(picks, picks + place,
            [](const PickedRow& x, const PickedRow& y) { return x.row != y.row ? x.row < y.row : x.place < y.place; });
  return picks;
}

std::int64_t workspace_of(const UpdateRows& u) { return u.picks * static_cast<std::int64_t>(sizeof(PickedRow)); }

// The rows that are there; of the others, those that calls before this one have kept.
void keep_rows(const UpdateRows& u, const Buffers& b, const PickedRow* picks) {
  float* out = b.out<float>(0);
  const auto* before = b.in<float>(kKept);
  if (before == nullptr) std::fill_n(out, u.picks * u.width, 0.0F);
  if (before != nullptr && before != out) std::copy_n(before, u.picks * u.width, out);
  for (std::int64_t i = 0; i < u.picks; ++i) {
    if (picks[i].row < u.first || picks[i].row >= u.last) continue;
    std::copy_n(b.in<float>(1) + (picks[i].row - u.first) * u.width, u.width, out + picks[i].place * u.width);
  }
}

Prepared rest_simd(const OpCall& call) {
  const UpdateRows u = update_rows_of(call);
  const auto run = [u](const Buffers& b) {
    const PickedRow* picks = picks_in_order(u, b);
    keep_rows(u, b, picks);
    if (is_put_off(b.in<float>(kHyper))) return;
    update_rows_table().rest(steps_of(u, b), b.in<float>(1), u.first, u.last, picks, u.picks);
  };
  return function_kernel(run, workspace_of(u));
}

Prepared rows_simd(const OpCall& call) {
  const UpdateRows u = update_rows_of(call);
  const auto run = [u](const Buffers& b) {
    if (is_put_off(b.in<float>(kHyper))) return;
    const PickedRow* picks = picks_in_order(u, b);
    update_rows_table().picked(steps_of(u, b), b.in<float>(1), picks, u.picks);
  };
  return function_kernel(run, workspace_of(u));
}

double bytes_a_row(const OpCall& call) { return static_cast<double>(call.shape(0).size(1)) * sizeof(float); }

// Parameter and state are read and written.
double tables(const OpCall& call) { return 2.0 * (1 + (call.has(2) ? 1 : 0) + (call.has(3) ? 1 : 0)); }

double rest_traffic(const OpCall& call) {
  const UpdateRows u = update_rows_of(call);
  const double rest = static_cast<double>(u.last - u.first) * (tables(call) + 1);
  return bytes_a_row(call) * (rest + 2 * static_cast<double>(u.picks));
}
double rows_traffic(const OpCall& call) {
  return bytes_a_row(call) * static_cast<double>(update_rows_of(call).picks) * (tables(call) + 2);
}
double rest_flops(const OpCall& call) { return 15 * static_cast<double>(call.in(1).elements()); }
double rows_flops(const OpCall& call) { return 16 * static_cast<double>(call.in(1).elements()); }

constexpr KernelEntry kRest[] = {{"cuda", DeviceKind::kCuda, rest_update_cuda},
                                 {"simd", DeviceKind::kCpu, rest_simd},
                                 {"ref", DeviceKind::kCpu, rest_update_ref}};
constexpr KernelEntry kRows[] = {{"cuda", DeviceKind::kCuda, rows_update_cuda},
                                 {"simd", DeviceKind::kCpu, rows_simd},
                                 {"ref", DeviceKind::kCpu, rows_update_ref}};
constexpr std::uint8_t kState[] = {0, 2, 3};
constexpr InOut kInPlace[] = {{kKept, 0}};

}  // namespace

UpdateRows update_rows_of(const OpCall& call) {
  UpdateRows out{.rows = call.shape(0).size(0),
                 .width = call.shape(0).size(1),
                 .is_rest = call.op->name == "rest_update",
                 .rule = rule_of(call),
                 .decoupled = call.attrs.text("rule", "") == "adamw_update",
                 .nesterov = call.attrs.integer("nesterov", 0) != 0};
  if (out.is_rest) {
    out.first = call.attrs.integer("first", 0);
    out.last = out.first + call.shape(1).size(0);
  }
  for (std::size_t i = out.is_rest ? kKept + 1 : kHyper + 1; i < call.inputs.size(); i += out.is_rest ? 1 : 2) {
    out.lookups.push_back(indices_of(call.in(i), out.rows, false));
    out.picks += out.lookups.back().count;
  }
  return out;
}

extern constinit const OpDef rest_update = {.name = "rest_update",
                                            .infer = infer_rest,
                                            .kernels = kRest,
                                            .kernel_count = std::size(kRest),
                                            .flops = rest_flops,
                                            .traffic = rest_traffic,
                                            .in_place = kInPlace,
                                            .mutates = kState};
extern constinit const OpDef rows_update = {.name = "rows_update",
                                            .infer = infer_rows,
                                            .kernels = kRows,
                                            .kernel_count = std::size(kRows),
                                            .flops = rows_flops,
                                            .traffic = rows_traffic,
                                            .mutates = kState};

}  // namespace neap::ops
