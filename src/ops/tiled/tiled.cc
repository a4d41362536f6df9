// fused(inputs...; axes, steps, "0.op", "0.in", attributes of step 0 as "0.NAME", "1.op", ...) -> the last step's
// result.
#include "ops/tiled/tiled.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/kernel.h"
#include "ops/tiled/tiled_kernel.h"

namespace neap {
namespace {

OpCall call_of_step(const TiledStep& step, const std::vector<std::optional<TensorType>>& values) {
  OpCall call{.op = step.op, .attrs = step.attrs};
  for (const int i : step.inputs) {
    call.inputs.push_back(i < 0 ? std::nullopt : values.at(static_cast<std::size_t>(i)));
  }
  return call;
}

}  // namespace

Attrs to_attrs(const TiledProgram& program) {
  Attrs out{{"axes", std::int64_t{program.axes}}, {"steps", static_cast<std::int64_t>(program.steps.size())}};
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const TiledStep& step = program.steps[i];
    out.set(fmt::format("{}.op", i), std::string(step.op->name));
    out.set(fmt::format("{}.in", i), Ints(step.inputs.begin(), step.inputs.end()));
    for (const auto& [key, value] : step.attrs) out.set(fmt::format("{}.{}", i, key), value);
  }
  return out;
}

TiledProgram program_of(const Attrs& attrs) {
  TiledProgram out{.axes = static_cast<int>(attrs.integer("axes"))};
  for (std::int64_t i = 0; i < attrs.integer("steps"); ++i) {
    const std::string prefix = fmt::format("{}.", i);
    TiledStep step{.op = &op_named(attrs.text(prefix + "op", ""))};
    for (const std::int64_t at : attrs.ints(prefix + "in")) step.inputs.push_back(static_cast<int>(at));
    for (const auto& [key, value] : attrs) {
      if (!key.starts_with(prefix) || key == prefix + "op" || key == prefix + "in") continue;
      step.attrs.set(key.substr(prefix.size()), value);
    }
    out.steps.push_back(std::move(step));
  }
  if (out.steps.empty()) throw UserError("a tiled program needs a step");
  return out;
}

std::vector<std::optional<TensorType>> types_of(const TiledProgram& program,
                                                const std::vector<std::optional<TensorType>>& inputs) {
  std::vector<std::optional<TensorType>> values = inputs;
  for (const TiledStep& step : program.steps) {
    for (const int i : step.inputs) {
      if (i >= static_cast<int>(values.size())) throw UserError("a step reads what no step before it makes");
    }
    values.emplace_back(step.op->infer(call_of_step(step, values)).at(0));
  }
  return values;
}

RowKind row_kind(const Shape& value, const Shape& result, int axes) {
  const int lead = value.rank() - result.rank();  // axes that the result has beyond the value's, negated
  bool is_rows = lead == 0;
  bool is_whole = lead <= 0;
  for (int i = 0; i < axes && i < result.rank(); ++i) {
    const int at = i + lead;
    is_rows = is_rows && at >= 0 && value[at] == result[i];
    is_whole = is_whole && (at < 0 || value[at] == Dim(1));
  }
  return is_rows ? RowKind::kRows : is_whole ? RowKind::kWhole : RowKind::kNeither;
}

namespace ops {
namespace {

Types infer(const OpCall& call) {
  const TiledProgram program = program_of(call.attrs);
  return {*types_of(program, call.inputs).back()};
}

double flops(const OpCall& call) {
  const TiledProgram program = program_of(call.attrs);
  const auto values = types_of(program, call.inputs);
  double sum = 0;
  for (const TiledStep& each : program.steps) {
    OpCall step = call_of_step(each, values);
    step.outputs = step.op->infer(step);
    sum += flops_of(step);
  }
  return sum;
}

constexpr KernelEntry kKernels[] = {{"nvrtc", DeviceKind::kCuda, fused_generated_cuda},
                                    {"cuda", DeviceKind::kCuda, fused_steps_cuda},
                                    {"onednn", DeviceKind::kCpu, tiled_with_libraries},
                                    {"simd", DeviceKind::kCpu, tiled_own},
                                    {"ref", DeviceKind::kCpu, tiled_ref}};
constexpr InOut kOverAny[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};

}  // namespace

// Only of steps that are one pass over memory each (optimize/fuse_elementwise.cc): cheap to run again as a whole.
extern constinit const OpDef fused = {.name = "fused",
                                      .infer = infer,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .flops = flops,
                                      .in_place = kOverAny,
                                      .cheap = true,
                                      .elementwise = true};

}  // namespace ops
}  // namespace neap
