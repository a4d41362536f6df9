// group_norm(x [N, ..., C], scale? [C], bias? [C]; groups, epsilon) -> y, mean [N, groups], rstd [N, groups]
// group_norm_grad(dy, x, mean, rstd, scale?; groups) -> dx, dscale, dbias
// Columns are summed for each image, then joined to groups; normalisation is by tables of a number a column.
#include "ops/group_norm/group_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/layer_norm/row_norm.h"

namespace neap::ops {

GroupNorm group_norm_of(const Shape& x, const Attrs& attrs) {
  const std::int64_t c = x.size(-1);
  const std::int64_t images = x.size(0);
  const std::int64_t rows = images * c == 0 ? 0 : x.count() / (images * c);
  return {.columns = columns_of(images, rows, c), .groups = attrs.integer("groups"), .epsilon = norm_epsilon(attrs)};
}

namespace {

Shape stats_shape(const Shape& x, const Attrs& attrs) {
  if (x.rank() < 3) throw UserError("takes f32[N, ..., C] with at least three axes");
  return {x[0], groups_of(attrs, x[-1], x[-1])};
}

Types infer(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(0);
  const TensorType stats{DType::kF32, stats_shape(x, call.attrs)};
  norm_epsilon(call.attrs);
  call.attrs.integer("groups");
  expect_shape(call, 1, {x[-1]}, "the scale");
  expect_shape(call, 2, {x[-1]}, "the bias");
  return {call.in(0), stats, stats};
}

Types infer_grad(const OpCall& call) {
  expect_f32(call);
  const Shape& x = call.shape(1);
  for (const std::size_t i : {2, 3}) call.in(i);
  expect_shape(call, 0, x, "dy");
  expect_shape(call, 2, stats_shape(x, call.attrs), "the mean");
  expect_shape(call, 3, stats_shape(x, call.attrs), "rstd");
  expect_shape(call, 4, {x[-1]}, "the scale");
  const TensorType channels{DType::kF32, {x[-1]}};
  return {call.in(1), channels, channels};
}

Values gradient(GradientCall& c) {
  if (!c.dy[0] || c.dy[1] || c.dy[2]) throw UserError("only y of group_norm can be differentiated");
  const Attrs attrs{{"groups", c.node.attrs.integer("groups")}};
  const Values made = c.g.add("group_norm_grad", {c.dy[0], c.x(0), c.y(1), c.y(2), c.x(1)}, attrs);
  Values dx(c.node.inputs.size());
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = c.wants(i) ? made[i] : Value{};
  return dx;
}

// The workspace: the columns' sums, then `tables` tables [N, C].
std::int64_t workspace_bytes(const Columns& s, int tables) {
  return align_up(partial_bytes(s)) + tables * s.images * s.c * 4;
}
float* table(const Columns& s, std::byte* workspace, int i) {
  return reinterpret_cast<float*>(workspace + align_up(partial_bytes(s))) + i * s.images * s.c;
}
const double* image_sums(const Columns& s, const std::byte* workspace, std::int64_t image) {
  return reinterpret_cast<const double*>(workspace) + image * s.parts * 2 * s.c;
}

// One group's mean and rstd from its columns' means and squared deviations.
void join_columns(const GroupNorm& g, const double* sums, std::int64_t group, double& mean, double& rstd) {
  const std::int64_t width = g.group_channels();
  const double* means = sums + group * width;
  const double* m2 = sums + g.columns.c + group * width;
  mean = 0;
  for (std::int64_t c = 0; c < width; ++c) mean += means[c];
  mean /= static_cast<double>(width);
  double total = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    total += m2[c] + (means[c] - mean) * (means[c] - mean) * static_cast<double>(g.columns.rows);
  }
  rstd = 1 / std::sqrt(total / g.group_elements() + g.epsilon);
}

void launch(const GroupNorm& g, const Buffers& b) {
  const Columns& s = g.columns;
  auto* partial = reinterpret_cast<double*>(b.workspace);
  columns_table().moments(s, b.in<float>(0), partial);
  columns_table().merge_moments(s, partial);
  float* mean_table = table(s, b.workspace, 0);
  float* rstd_table = table(s, b.workspace, 1);
  for (std::int64_t i = 0; i < s.images * g.groups; ++i) {
    double mean = 0;
    double rstd = 0;
    join_columns(g, image_sums(s, b.workspace, i / g.groups), i % g.groups, mean, rstd);
    std::fill_n(mean_table + i * g.group_channels(), g.group_channels(), static_cast<float>(mean));
    std::fill_n(rstd_table + i * g.group_channels(), g.group_channels(), static_cast<float>(rstd));
    if (b.outputs[1] != nullptr) b.out<float>(1)[i] = static_cast<float>(mean);
    if (b.outputs[2] != nullptr) b.out<float>(2)[i] = static_cast<float>(rstd);
  }
  columns_table().apply(s, {.x = b.in<float>(0),
                            .mean = {mean_table, s.c},
                            .rstd = {rstd_table, s.c},
                            .scale = {b.in<float>(1)},
                            .bias = {b.in<float>(2)},
                            .y = b.out<float>(0)});
}

// The factors of dx = rstd (scale dy - sum(scale dy) / m - n sum(scale dy n) / m), n = (x - mean) rstd, for one group.
void group_factors(const GroupNorm& g, const Buffers& b, std::int64_t image, std::int64_t group) {
  const Columns& s = g.columns;
  const double* sums = image_sums(s, b.workspace, image);
  const double rstd = b.in<float>(3)[image * g.groups + group];
  const float* scale = b.in<float>(4);
  const std::int64_t first = group * g.group_channels();
  double sum = 0;
  double product = 0;
  for (std::int64_t c = first; c < first + g.group_channels(); ++c) {
    const double factor = scale != nullptr ? scale[c] : 1;
    sum += factor * sums[c];
    product += factor * sums[s.c + c] * rstd;
  }
  for (std::int64_t c = first; c < first + g.group_channels(); ++c) {
    const double factor = scale != nullptr ? scale[c] : 1;
    table(s, b.workspace, 1)[image * s.c + c] = static_cast<float>(factor * rstd);
    table(s, b.workspace, 2)[image * s.c + c] = static_cast<float>(rstd * sum / g.group_elements());
    table(s, b.workspace, 3)[image * s.c + c] = static_cast<float>(rstd * rstd * product / g.group_elements());
  }
}

void parameter_gradients(const GroupNorm& g, const Buffers& b) {
  const Columns& s = g.columns;
  for (std::int64_t c = 0; c < s.c; ++c) {
    double dscale = 0;
    double dbias = 0;
    for (std::int64_t i = 0; i < s.images; ++i) {
      const double* sums = image_sums(s, b.workspace, i);
      dscale += sums[s.c + c] * b.in<float>(3)[i * g.groups + c / g.group_channels()];
      dbias += sums[c];
    }
    if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(dscale);
    if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(dbias);
  }
}

void launch_grad(const GroupNorm& g, const Buffers& b) {
  const Columns& s = g.columns;
  float* mean_table = table(s, b.workspace, 0);
  for (std::int64_t i = 0; i < s.images * g.groups; ++i) {
    std::fill_n(mean_table + i * g.group_channels(), g.group_channels(), b.in<float>(2)[i]);
  }
  const ColumnGradient args = {.dy = b.in<float>(0),
                               .x = b.in<float>(1),
                               .gate = ColumnGate::kOpen,
                               .mean = {mean_table, s.c},
                               .k0 = {table(s, b.workspace, 1), s.c},
                               .k1 = {table(s, b.workspace, 2), s.c},
                               .k2 = {table(s, b.workspace, 3), s.c},
                               .dx = b.out<float>(0)};
  auto* partial = reinterpret_cast<double*>(b.workspace);
  columns_table().sums(s, args, partial);
  columns_table().merge_sums(s, partial);
  for (std::int64_t i = 0; i < s.images * g.groups; ++i) group_factors(g, b, i / g.groups, i % g.groups);
  parameter_gradients(g, b);
  if (args.dx != nullptr) columns_table().gradient(s, args);
}

Prepared simd(const OpCall& call) {
  const GroupNorm g = group_norm_of(call.shape(0), call.attrs);
  if (g.columns.rows == 0) return Declined{"nothing to normalise"};
  return function_kernel([g](const Buffers& b) { launch(g, b); }, workspace_bytes(g.columns, 2));
}

Prepared simd_grad(const OpCall& call) {
  const GroupNorm g = group_norm_of(call.shape(1), call.attrs);
  if (g.columns.rows == 0) return Declined{"nothing to normalise"};
  return function_kernel([g](const Buffers& b) { launch_grad(g, b); }, workspace_bytes(g.columns, 4));
}

double flops(const OpCall& call) { return 7.0 * static_cast<double>(call.in(0).elements()); }
double flops_grad(const OpCall& call) { return 9.0 * static_cast<double>(call.in(0).elements()); }
double traffic(const OpCall& call) { return 3.0 * static_cast<double>(call.in(0).bytes()); }  // x is read twice
double traffic_grad(const OpCall& call) { return 5.0 * static_cast<double>(call.in(0).bytes()); }

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, group_norm_cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, group_norm_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, group_norm_grad_cuda},
                                     {"simd", DeviceKind::kCpu, simd_grad},
                                     {"ref", DeviceKind::kCpu, group_norm_grad_ref}};
constexpr InOut kInPlace[] = {{0, 0}};
constexpr InOut kGradInPlace[] = {{0, 0}, {1, 0}};

}  // namespace

extern constinit const OpDef group_norm = {.name = "group_norm",
                                           .infer = infer,
                                           .gradient = gradient,
                                           .kernels = kForward,
                                           .kernel_count = std::size(kForward),
                                           .flops = flops,
                                           .traffic = traffic,
                                           .in_place = kInPlace,
                                           .optional_outputs = 0b110};

extern constinit const OpDef group_norm_grad = {.name = "group_norm_grad",
                                                .infer = infer_grad,
                                                .kernels = kBackward,
                                                .kernel_count = std::size(kBackward),
                                                .flops = flops_grad,
                                                .traffic = traffic_grad,
                                                .in_place = kGradInPlace,
                                                .optional_outputs = 0b111};

}  // namespace neap::ops
