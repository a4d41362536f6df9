// Times the kernels of a ResNet-18 (3x3 stem, 64x64 images, batch 32): convolutions with their weight copies, batch
// norm, pooling. Prints milliseconds (median), GFLOP/s and GB/s (every input and output once, unless the op says
// otherwise).
//   conv_kernels [substring of a line to run]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/bytes.h"
#include "device/device.h"
#include "ops/evaluate.h"

namespace neap {
namespace {

struct Case {
  std::string label;
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  std::uint32_t leave_out = 0;  // bit i: output i is not wanted
};

class HostStream final : public Stream {};

OpCall call_of_case(const Case& c) {
  OpCall call{.op = &op_named(c.op), .attrs = c.attrs};
  for (const TensorType& t : c.inputs) call.inputs.push_back(t.shape.rank() == 0 ? std::nullopt : std::optional(t));
  call.outputs = call.op->infer(call);
  return call;
}

double median_seconds(Kernel& kernel, const Buffers& buffers) {
  using Clock = std::chrono::steady_clock;
  HostStream stream;
  std::vector<double> times;
  double total = 0;
  for (int i = 0; i < 30 && (i < 5 || total < 0.7); ++i) {
    const auto start = Clock::now();
    kernel.launch(buffers, stream);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += times.back();
  }
  std::sort(times.begin() + 1, times.end());  // the first warms up
  return times[1 + (times.size() - 1) / 2];
}

void fill(std::byte* at, const TensorType& type, std::uint32_t key) {
  if (type.dtype == DType::kF32) {
    auto* x = reinterpret_cast<float*>(at);
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      x[i] = static_cast<float>((static_cast<std::uint32_t>(i) * 2654435761U + key) >> 8) * 0x1p-24F + 0.01F;
    }
  } else {
    std::memset(at, type.dtype == DType::kBits ? 0x5A : 1, static_cast<std::size_t>(type.bytes()));
  }
}

void run(const Case& c, Device& device) {
  const OpCall call = call_of_case(c);
  const auto kernel = prepare_cpu_kernel(call);
  std::int64_t bytes = align_up(kernel->workspace_bytes());
  for (const auto& t : call.inputs) bytes += t ? align_up(t->bytes()) : 0;
  for (const TensorType& t : call.outputs) bytes += align_up(t.bytes());
  const auto arena = device.make_arena(bytes, false);
  std::byte* at = arena->base();
  const auto take = [&](std::int64_t n) { return std::exchange(at, at + align_up(n)); };
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::uint32_t key = 1;
  for (const auto& t : call.inputs) {
    std::byte* place = t ? take(t->bytes()) : nullptr;
    if (t) fill(place, *t, key++);
    inputs.push_back(place);
  }
  double traffic = traffic_of(call);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const bool wanted = (c.leave_out >> i & 1U) == 0;
    outputs.push_back(wanted ? take(call.outputs[i].bytes()) : nullptr);
    if (!wanted) traffic -= static_cast<double>(call.outputs[i].bytes());
  }
  const double s =
      median_seconds(*kernel, {.inputs = inputs, .outputs = outputs, .workspace = take(kernel->workspace_bytes())});
  fmt::print("{:28} {:22} {:8.3f} ms {:7.1f} GFLOP/s {:6.1f} GB/s  workspace {:>9}  {}\n", c.label, c.op, s * 1e3,
             flops_of(call) / s * 1e-9, traffic / s * 1e-9, human_bytes(kernel->workspace_bytes()), kernel->numerics());
  std::fflush(stdout);
}

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

void add_conv(std::vector<Case>& cases, const std::string& label, std::int64_t size, std::int64_t c, std::int64_t o,
              std::int64_t k, std::int64_t stride) {
  const Attrs attrs{{"strides", Ints{stride, stride}}, {"pads", Ints(4, k / 2)}};
  const std::int64_t out = (size + 2 * (k / 2) - k) / stride + 1;
  const TensorType x = f32({32, size, size, c});
  const TensorType y = f32({32, out, out, o});
  const TensorType w = f32({o, k, k, c});
  Attrs weight = attrs;
  weight.set("kernel", Ints{k, k});
  Attrs data = attrs;
  data.set("shape", x.shape);
  cases.push_back({label, "conv", {x, w}, attrs});
  cases.push_back({label, "conv_grad_weight", {x, y}, weight});
  if (c > 3) cases.push_back({label, "conv_grad_data", {y, w}, data});
}

void add_norm(std::vector<Case>& cases, std::int64_t size, std::int64_t channels) {
  const std::string label = fmt::format("{0}x{0}x{1}", size, channels);
  const TensorType x = f32({32, size, size, channels});
  const TensorType c = f32({channels});
  const TensorType none = f32({});
  const TensorType mask{DType::kBits, x.shape};
  cases.push_back({label, "batch_stats", {x}});
  cases.push_back({label + " relu", "batch_norm_apply", {x, c, c, c, c}, {{"relu", 1}}, 0b10});
  cases.push_back({label + " relu mask residual", "batch_norm_apply", {x, c, c, c, c, x}, {{"relu", 1}}});
  cases.push_back({label + " by sign", "batch_norm_grad", {x, x, c, c, c, none, c}, {{"relu", 1}}, 0b1000});
  cases.push_back({label + " by mask, dresidual", "batch_norm_grad", {x, x, c, c, c, mask}, {{"relu", 1}}});
}

void add_row_norms(std::vector<Case>& cases, std::int64_t rows, std::int64_t width) {
  const std::string label = fmt::format("{}x{}", rows, width);
  const TensorType x = f32({rows, width});
  const TensorType r = f32({rows});
  const TensorType c = f32({width});
  cases.push_back({label, "layer_norm", {x, c, c}});
  cases.push_back({label, "layer_norm_grad", {x, x, r, r, c}});
  cases.push_back({label, "rms_norm", {x, c}});
  cases.push_back({label, "rms_norm_grad", {x, x, r, c}});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_conv(cases, "stem 3-64 64x64", 64, 3, 64, 3, 1);
  for (std::int64_t size = 64, c = 64; c <= 512; size /= 2, c *= 2) {
    add_conv(cases, fmt::format("{1}-{1} {0}x{0}", size, c), size, c, c, 3, 1);
    if (c == 512) break;
    add_conv(cases, fmt::format("{1}-{2}/2 {0}x{0}", size, c, 2 * c), size, c, 2 * c, 3, 2);
    add_conv(cases, fmt::format("1x1 {1}-{2}/2 {0}x{0}", size, c, 2 * c), size, c, 2 * c, 1, 2);
  }
  for (std::int64_t size = 64, c = 64; c <= 512; size /= 2, c *= 2) add_norm(cases, size, c);
  const TensorType x = f32({32, 64, 64, 64});
  const TensorType half = f32({32, 32, 32, 64});
  const Attrs two{{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Attrs three{{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
  for (const auto& [name, attrs] : {std::pair{"2x2/2 64x64x64", two}, {"3x3/2 64x64x64", three}}) {
    Attrs grad = attrs;
    grad.set("shape", x.shape);
    cases.push_back({name, "max_pool", {x}, attrs});
    cases.push_back({name, "max_pool_grad", {half, {DType::kU8, half.shape}}, grad});
    cases.push_back({name, "average_pool", {x}, attrs});
    cases.push_back({name, "average_pool_grad", {half}, grad});
  }
  for (const TensorType& image : {x, f32({32, 8, 8, 512})}) {
    const TensorType pooled = f32({32, 1, 1, image.shape[-1]});
    cases.push_back({image.shape.text(), "global_average_pool", {image}});
    cases.push_back({image.shape.text(), "global_average_pool_grad", {pooled}, {{"shape", image.shape}}});
    cases.push_back({image.shape.text(), "global_max_pool", {image}});
  }
  add_row_norms(cases, 2048, 384);
  add_row_norms(cases, 16384, 768);
  const TensorType stats = f32({32, 8});
  const TensorType c = f32({64});
  cases.push_back({"64x64x64, 8 groups", "group_norm", {x, c, c}, {{"groups", 8}}});
  cases.push_back({"64x64x64, 8 groups", "group_norm_grad", {x, x, stats, stats, c}, {{"groups", 8}}});
  cases.push_back({"64x64x64 by 1", "pad", {x}, {{"pads", Ints{0, 1, 1, 0, 0, 1, 1, 0}}}});
  const Attrs reflect{{"pads", Ints{0, 1, 1, 0, 0, 1, 1, 0}}, {"mode", std::string("reflect")}, {"shape", x.shape}};
  cases.push_back({"64x64x64 by 1, reflect", "pad_grad", {f32({32, 66, 66, 64})}, reflect});
  return cases;
}

}  // namespace
}  // namespace neap

int main(int argc, char** argv) {
  const auto device = neap::make_cpu_device(0);
  fmt::print("{}\n", device->numerics());
  for (const neap::Case& c : neap::all_cases()) {
    if (argc < 2 || (c.label + " " + c.op).find(argv[1]) != std::string::npos) neap::run(c, *device);
  }
}
