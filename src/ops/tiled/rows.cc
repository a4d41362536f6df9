// product_rows and its like (inputs...; axes, chunk, kinds, results, steps, op0, in0, outs0, attributes of step 0 as
// "0.NAME", op1, ...) -> the results.
#include "ops/tiled/rows.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/kernel.h"
#include "ops/tiled/rows_kernel.h"

namespace neap {
namespace {

bool goes_by_rows(const RowProgram& program, std::size_t value) {
  return value >= program.inputs.size() || program.inputs[value] == RowInput::kRows;
}

Shape with_rows(const Shape& shape, int axes, std::int64_t rows) {
  Shape out{rows};
  for (int i = axes; i < shape.rank(); ++i) out.push_back(shape[i]);
  return out;
}

// Leading axes of size 1.
Shape without_ones(const Shape& shape) {
  int first = 0;
  while (first < shape.rank() && shape[first] == Dim(1)) ++first;
  return Shape({shape.begin() + first, shape.end()});
}

OpCall call_of_step(const RowStep& step, const ValueTypes& values) {
  OpCall call{.op = step.op, .attrs = step.attrs};
  for (const int i : step.inputs) {
    if (i >= static_cast<int>(values.size())) throw UserError("a step reads what no step before it makes");
    call.inputs.push_back(i < 0 ? std::nullopt : values[static_cast<std::size_t>(i)]);
  }
  return call;
}

}  // namespace

Attrs to_attrs(const RowProgram& program) {
  Attrs out{{"axes", std::int64_t{program.axes}},
            {"chunk", program.chunk},
            {"results", Ints(program.results.begin(), program.results.end())},
            {"steps", static_cast<std::int64_t>(program.steps.size())}};
  Ints kinds;
  for (const RowInput kind : program.inputs) kinds.push_back(static_cast<std::int64_t>(kind));
  out.set("kinds", kinds);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const RowStep& step = program.steps[i];
    out.set(fmt::format("op{}", i), std::string(step.op->name));
    out.set(fmt::format("in{}", i), Ints(step.inputs.begin(), step.inputs.end()));
    out.set(fmt::format("outs{}", i), std::int64_t{step.outputs});
    for (const auto& [key, value] : step.attrs) out.set(fmt::format("{}.{}", i, key), value);
  }
  return out;
}

RowProgram row_program_of(const Attrs& attrs) {
  RowProgram out{.axes = static_cast<int>(attrs.integer("axes")), .chunk = attrs.integer("chunk")};
  for (const std::int64_t kind : attrs.ints("kinds")) {
    if (kind < 0 || kind > static_cast<std::int64_t>(RowInput::kKey)) throw UserError("an input's kind is unknown");
    out.inputs.push_back(static_cast<RowInput>(kind));
  }
  for (std::int64_t i = 0; i < attrs.integer("steps"); ++i) {
    const std::string prefix = fmt::format("{}.", i);
    RowStep step{.op = &op_named(attrs.text(fmt::format("op{}", i), "")),
                 .outputs = static_cast<int>(attrs.integer(fmt::format("outs{}", i)))};
    for (const std::int64_t at : attrs.ints(fmt::format("in{}", i))) step.inputs.push_back(static_cast<int>(at));
    for (const auto& [key, value] : attrs) {
      if (key.starts_with(prefix)) step.attrs.set(key.substr(prefix.size()), value);
    }
    out.steps.push_back(std::move(step));
  }
  for (const std::int64_t value : attrs.ints("results")) out.results.push_back(static_cast<int>(value));
  if (out.steps.empty() || out.results.empty()) throw UserError("a group of rows needs a step and a result");
  if (out.axes < 1 || out.chunk < 1) throw UserError("a group of rows needs rows");
  return out;
}

ValueTypes value_types(const RowProgram& program, const ValueTypes& inputs) {
  if (inputs.size() != program.inputs.size()) throw UserError("a group of rows has another number of inputs");
  ValueTypes values = inputs;
  for (const RowStep& step : program.steps) {
    const Types made = step.op->infer(call_of_step(step, values));
    if (step.outputs < 1 || step.outputs > static_cast<int>(made.size())) throw UserError("a step has fewer outputs");
    values.insert(values.end(), made.begin(), made.begin() + step.outputs);
  }
  for (const int result : program.results) {
    const bool is_made = result >= static_cast<int>(inputs.size()) && result < static_cast<int>(values.size());
    if (!is_made) throw UserError("a result is made by no step");
  }
  return values;
}

std::int64_t rows_of(const RowProgram& program, const ValueTypes& values) {
  const Shape& shape = values.back()->shape;
  if (shape.rank() < program.axes) throw UserError("a value has fewer axes than rows have");
  std::int64_t rows = 1;
  for (int i = 0; i < program.axes; ++i) rows *= shape.size(i);
  return rows;
}

OpCall chunk_call(const RowProgram& program, const ValueTypes& values, std::size_t at, std::int64_t rows) {
  ValueTypes cut = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    if (goes_by_rows(program, i)) {
      cut[i]->shape = with_rows(values[i]->shape, program.axes, rows);
    } else if (program.inputs[i] == RowInput::kBroadcast) {
      cut[i]->shape = without_ones(values[i]->shape);
    }
  }
  OpCall call = call_of_step(program.steps[at], cut);
  for (const auto& [key, value] : program.steps[at].attrs) {
    if (const auto* shape = std::get_if<Shape>(&value)) call.attrs.set(key, with_rows(*shape, program.axes, rows));
  }
  call.outputs = call.op->infer(call);
  return call;
}

namespace ops {
namespace {

Types infer(const OpCall& call) {
  const RowProgram program = row_program_of(call.attrs);
  const ValueTypes values = value_types(program, call.inputs);
  Types out;
  for (const int result : program.results) out.push_back(*values[static_cast<std::size_t>(result)]);
  return out;
}

double flops(const OpCall& call) {
  const RowProgram program = row_program_of(call.attrs);
  const ValueTypes values = value_types(program, call.inputs);
  double sum = 0;
  for (const RowStep& each : program.steps) {
    OpCall step = call_of_step(each, values);
    step.outputs = step.op->infer(step);
    sum += flops_of(step);
  }
  return sum;
}

constexpr KernelEntry kKernels[] = {{"onednn", DeviceKind::kCpu, rows_with_libraries},
                                    {"simd", DeviceKind::kCpu, rows_own},
                                    {"ref", DeviceKind::kCpu, rows_ref}};
// The passes put an input there that the first result may overwrite chunk by chunk, or none (optimize/row_groups.h).
constexpr InOut kOverFirst[] = {{0, 0}};

constexpr OpDef group(std::string_view name) {
  return {.name = name,
          .infer = infer,
          .kernels = kKernels,
          .kernel_count = std::size(kKernels),
          .flops = flops,
          .in_place = kOverFirst};
}

}  // namespace

extern constinit const OpDef product_rows = group("product_rows");
extern constinit const OpDef feed_forward_rows = group("feed_forward_rows");
extern constinit const OpDef feed_forward_again_rows = group("feed_forward_again_rows");
extern constinit const OpDef norm_rows = group("norm_rows");
extern constinit const OpDef conv_rows = group("conv_rows");

}  // namespace ops

bool is_row_group(const OpDef& op) { return op.kernels == ops::product_rows.kernels; }

}  // namespace neap
