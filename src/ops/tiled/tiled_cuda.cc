// Fused programs on CUDA. Where all steps are functions of single elements that are known here, the program becomes one
// kernel, generated and compiled when it is prepared: every input is read once, and what lies between stays in
// registers. It uses the formulas of the ops' own kernels, and rounds as they do. Else the ops' kernels run one after
// the other, with what lies between in the workspace.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/bytes.h"
#include "device/cuda/nvrtc.h"
#include "ops/binary/binary.h"
#include "ops/cuda_kernel.h"
#include "ops/dropout/dropout.h"
#include "ops/relu/gate.h"
#include "ops/tiled/tiled.h"
#include "ops/tiled/tiled_kernel.h"
#include "ops/tiled/tiled_texts.h"
#include "ops/unary/unary.h"

namespace neap::ops {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 16;

constexpr std::string_view kIntegers = R"(
namespace std {
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
}
)";
constexpr std::string_view kNoTables = "#define NEAP_ISA_TABLE(type, name)\n";

std::span<const NvrtcHeader> headers() {
  static const std::array kHeaders = {NvrtcHeader{"cstdint", kIntegers},
                                      NvrtcHeader{"device/cpu/isa.h", kNoTables},
                                      NvrtcHeader{"device/cuda/random.cuh", kRandomText},
                                      NvrtcHeader{"ops/elementwise/broadcast_plan.h", kBroadcastPlanText},
                                      NvrtcHeader{"ops/unary/unary_simd.h", kUnaryTypesText},
                                      NvrtcHeader{"ops/unary/unary_formulas.cuh", kUnaryText},
                                      NvrtcHeader{"ops/binary/binary_simd.h", kBinaryTypesText},
                                      NvrtcHeader{"ops/binary/binary_formulas.cuh", kBinaryText},
                                      NvrtcHeader{"ops/relu/gate_simd.h", kGateTypesText},
                                      NvrtcHeader{"ops/relu/gate_formulas.cuh", kGateText}};
  return kHeaders;
}

std::string number(float x) { return fmt::format("__int_as_float({:#x})", std::bit_cast<std::uint32_t>(x)); }

using PrepareFunction = Prepared (*)(const OpCall&);
bool is_by(const OpCall& call, PrepareFunction prepare) {
  const std::span entries(call.op->kernels, call.op->kernel_count);
  return std::any_of(entries.begin(), entries.end(), [&](const KernelEntry& e) { return e.prepare == prepare; });
}

// The step as an expression of its inputs (v0, v1, ..; r0, .. for random keys); empty: not known here.
std::string expression(const OpCall& call, const std::vector<std::string>& in) {
  if (is_by(call, unary_cuda)) {
    const UnaryCall u = unary_call(call);
    return fmt::format("unary_value(UnaryFn({}), {}, {{{}, {}}})", static_cast<int>(u.fn), in[0], number(u.args.a),
                       number(u.args.b));
  }
  if (is_by(call, unary_grad_cuda)) {
    const UnaryCall u = unary_call(call);
    return fmt::format("unary_gradient(UnaryFn({}), {}, {}, {{{}, {}}})", static_cast<int>(u.fn), in[0], in[1],
                       number(u.args.a), number(u.args.b));
  }
  if (is_by(call, binary_cuda) && binary_fn(call) < BinaryFn::kEqual) {
    return fmt::format("binary_value(BinaryFn({}), {}, {})", static_cast<int>(binary_fn(call)), in[0], in[1]);
  }
  if (is_by(call, binary_grad_cuda)) {
    return fmt::format("binary_gradient(BinaryGradFn({}), {}, {}, {})", static_cast<int>(binary_grad_fn(call)), in[0],
                       in[1], in[2]);
  }
  if (is_by(call, gate_cuda)) {
    const GateCall g = gate_call(call);
    return fmt::format("gate(GateFn({}), {}, {{{}, {}, {}, {}}}).value", static_cast<int>(g.fn), in[0],
                       number(g.args.a), number(g.args.b), number(g.args.open), number(g.args.closed));
  }
  if (is_by(call, dropout_cuda)) {
    const DropoutDraw d(call);
    return fmt::format("dropped({}, {}, {}ULL, i + {}ULL, {}, {})", in[0], in[1], d.key, d.first, number(d.p),
                       number(d.scale));
  }
  return {};
}

// Where an input lies for element i of the result.
std::string place(const Shape& shape, const Shape& result) {
  std::string out;
  std::int64_t step = 1;
  std::int64_t over = 1;
  for (int back = 1; back <= result.rank(); ++back) {
    const std::int64_t size = result.size(-back);
    const std::int64_t own = back <= shape.rank() ? shape.size(-back) : 1;
    if (own != 1) out += fmt::format("{}i / {}U % {}U * {}U", out.empty() ? "" : " + ", over, size, step);
    step *= own;
    over *= size;
  }
  return out.empty() ? "0" : out;
}

// The types of a call's values as a fused kernel can have them: f32 throughout, steps of the result's shape.
const char* reason_against(const TiledProgram& program, const std::vector<std::optional<TensorType>>& types,
                           std::size_t inputs) {
  const TensorType& result = *types.back();
  if (result.elements() == 0 || result.elements() >= std::int64_t{1} << 31) return "nothing, or too much, to compute";
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool is_key = types[i] && i < inputs && types[i]->dtype == DType::kU64;
    if (!types[i] || (types[i]->dtype != DType::kF32 && !is_key)) return "f32 only";
    if (i >= inputs && !(*types[i] == result)) return "a step has another shape";
  }
  return inputs > 8 || program.steps.size() > 64 ? "too large a program" : nullptr;
}

// Empty: a step is not known here.
std::string source_of(const TiledProgram& program, const std::vector<std::optional<TensorType>>& types,
                      std::size_t inputs) {
  const Shape& result = types.back()->shape;
  std::string parameters;
  std::string body;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs; ++i) {
    const bool is_key = types[i]->dtype == DType::kU64;
    parameters += fmt::format("const {}* r{}, ", is_key ? "unsigned long long" : "float", i);
    if (!is_key) {
      const std::string at = types[i]->shape == result ? "i" : place(types[i]->shape, result);
      body += fmt::format("    const float v{} = r{}[{}];\n", i, i, at);
    }
    names.push_back(fmt::format("{}{}", is_key ? 'r' : 'v', i));
  }
  for (const TiledStep& step : program.steps) {
    OpCall call{.op = step.op, .attrs = step.attrs, .outputs = {*types.back()}};
    std::vector<std::string> in;
    for (const int i : step.inputs) {
      call.inputs.push_back(i < 0 ? std::nullopt : types[static_cast<std::size_t>(i)]);
      in.push_back(i < 0 ? "0" : names[static_cast<std::size_t>(i)]);
    }
    const std::string value = expression(call, in);
    if (value.empty()) return {};
    names.push_back(fmt::format("v{}", names.size()));
    body += fmt::format("    const float {} = {};\n", names.back(), value);
  }
  return fmt::format(
      "#include \"device/cuda/random.cuh\"\n#include \"ops/unary/unary_formulas.cuh\"\n"
      "#include \"ops/binary/binary_formulas.cuh\"\n#include \"ops/relu/gate_formulas.cuh\"\n"
      "using namespace neap;\nusing namespace neap::ops;\n"
      "extern \"C\" __global__ void __launch_bounds__({0}) fused({1}float* out) {{\n"
      "  const unsigned n = {2}U;\n  const unsigned stride = gridDim.x * {0}U;\n"
      "  for (unsigned i = blockIdx.x * {0}U + threadIdx.x; i < n; i += stride) {{\n{3}    out[i] = {4};\n  }}\n}}\n",
      kThreads, parameters, types.back()->elements(), body, names.back());
}

class GeneratedKernel final : public Kernel {
 public:
  GeneratedKernel(cudaKernel_t kernel, std::int64_t elements, std::size_t inputs)
      : kernel_(kernel),
        blocks_(static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, kMostBlocks))),
        inputs_(inputs) {}

  void launch(const Buffers& b, Stream& stream) override {
    std::array<const std::byte*, 9> pointers{};
    std::array<void*, 9> arguments{};
    std::copy_n(b.inputs.begin(), inputs_, pointers.begin());
    pointers[inputs_] = b.outputs[0];
    for (std::size_t i = 0; i <= inputs_; ++i) arguments[i] = &pointers[i];
    check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(blocks_), dim3(kThreads), arguments.data(),
                                0, handle_of(stream)),
               "a fused kernel's launch");
  }

 private:
  cudaKernel_t kernel_;
  unsigned blocks_;
  std::size_t inputs_;
};

// One step's kernel, and where its result lies in the workspace.
struct Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<int> inputs;
  std::size_t outputs = 1;
  std::int64_t at = 0;
};

class StepByStep final : public Kernel {
 public:
  StepByStep(std::vector<Step> steps, std::size_t inputs, std::int64_t scratch_at, std::int64_t bytes)
      : steps_(std::move(steps)), inputs_(inputs), scratch_at_(scratch_at), bytes_(bytes) {}
  std::int64_t workspace_bytes() const override { return bytes_; }

  void launch(const Buffers& b, Stream& stream) override {
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const Step& step = steps_[s];
      std::array<const std::byte*, 8> in{};
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const int value = step.inputs[i];
        if (value < 0) continue;
        const auto at = static_cast<std::size_t>(value);
        in[i] = at < inputs_ ? b.inputs[at] : b.workspace + steps_[at - inputs_].at;
      }
      std::array<std::byte*, 4> out = {s + 1 == steps_.size() ? b.outputs[0] : b.workspace + step.at};
      step.kernel->launch({.inputs = std::span<const std::byte* const>(in).first(step.inputs.size()),
                           .outputs = std::span<std::byte* const>(out).first(step.outputs),
                           .workspace = b.workspace + scratch_at_},
                          stream);
    }
  }

 private:
  std::vector<Step> steps_;
  std::size_t inputs_;
  std::int64_t scratch_at_, bytes_;
};

std::unique_ptr<Kernel> cuda_kernel_for(const OpCall& call) {
  for (const KernelEntry& entry : std::span(call.op->kernels, call.op->kernel_count)) {
    if (entry.device != DeviceKind::kCuda || entry.prepare == nullptr) continue;
    Prepared prepared = entry.prepare(call);
    if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared)) return std::move(*kernel);
  }
  return nullptr;
}

}  // namespace

Prepared fused_generated_cuda(const OpCall& call) {
  const TiledProgram program = program_of(call.attrs);
  const auto types = types_of(program, call.inputs);
  if (const char* why = reason_against(program, types, call.inputs.size())) return Declined{why};
  if (!has_nvrtc()) return Declined{"libnvrtc is not there"};
  const std::string source = source_of(program, types, call.inputs.size());
  if (source.empty()) return Declined{"a step that is not known to it"};
  return std::make_unique<GeneratedKernel>(compile_kernel(source, "fused", headers()), types.back()->elements(),
                                           call.inputs.size());
}

// A result may take an input's place only at the end: the last step reads what it must before it writes.
Prepared fused_steps_cuda(const OpCall& call) {
  const TiledProgram program = program_of(call.attrs);
  const auto types = types_of(program, call.inputs);
  std::vector<Step> steps;
  std::int64_t bytes = 0;
  std::int64_t scratch = 0;
  for (const TiledStep& each : program.steps) {
    OpCall step{.op = each.op, .attrs = each.attrs};
    for (const int i : each.inputs) step.inputs.push_back(i < 0 ? std::nullopt : types[static_cast<std::size_t>(i)]);
    step.outputs = each.op->infer(step);
    auto kernel = cuda_kernel_for(step);
    if (!kernel || each.inputs.size() > 8 || step.outputs.size() > 4) return Declined{"a step has no such kernel"};
    scratch = std::max(scratch, kernel->workspace_bytes());
    steps.push_back({std::move(kernel), each.inputs, step.outputs.size(), bytes});
    if (steps.size() < program.steps.size()) bytes += align_up(step.outputs[0].bytes(), 256);
  }
  return std::make_unique<StepByStep>(std::move(steps), call.inputs.size(), bytes, bytes + scratch);
}

}  // namespace neap::ops
