// Runs a node's CUDA kernels for the harness: each twice (the bits must be the same), in place wherever the op allows
// it, and without each output that may be left out. Outputs and workspace hold NaN before, each in memory of its own.
#include "ops/op_check_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/cuda/cuda.h"
#include "graph/op.h"
#include "ops/convert_kernel.h"

namespace neap {
namespace {

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    void* at = nullptr;
    NEAP_CHECK_CUDA(cudaMalloc(&at, std::max<std::size_t>(bytes, 16)));
    at_ = static_cast<std::byte*>(at);
    NEAP_CHECK_CUDA(cudaMemset(at_, 0xff, std::max<std::size_t>(bytes, 16)));
  }
  ~DeviceBytes() { cudaFree(at_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* at() const { return at_; }
  void write(const HostTensor& t) const {
    NEAP_CHECK_CUDA(cudaMemcpy(at_, t.data.data(), bytes_, cudaMemcpyHostToDevice));
  }
  HostTensor read(const TensorType& type) const {
    HostTensor t(type);
    NEAP_CHECK_CUDA(cudaMemcpy(t.data.data(), at_, bytes_, cudaMemcpyDeviceToHost));
    return t;
  }

 private:
  std::size_t bytes_;
  std::byte* at_ = nullptr;
};

struct Way {
  std::optional<InOut> alias;          // that output lies in that input
  std::optional<std::size_t> without;  // that output is not wanted
};

// The outputs (an empty tensor where it is not wanted), then the inputs that the op changes.
std::vector<HostTensor> run(const NodeCase& c, Kernel& kernel, const Way& way) {
  const OpCall& call = c.call;
  std::vector<std::unique_ptr<DeviceBytes>> in;
  std::vector<std::unique_ptr<DeviceBytes>> out;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const HostTensor* t : c.inputs) {
    in.push_back(t != nullptr ? std::make_unique<DeviceBytes>(t->data.size()) : nullptr);
    if (t != nullptr) in.back()->write(*t);
    inputs.push_back(t != nullptr ? in.back()->at() : nullptr);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    out.push_back(std::make_unique<DeviceBytes>(static_cast<std::size_t>(call.outputs[i].bytes())));
    outputs.push_back(way.without == i ? nullptr : out.back()->at());
  }
  if (way.alias) outputs[way.alias->output] = in[way.alias->input]->at();
  const DeviceBytes workspace(static_cast<std::size_t>(kernel.workspace_bytes()));
  CudaStream stream(CudaContext::get().compute());
  NEAP_CHECK_CUDA(cudaDeviceSynchronize());
  kernel.launch({.inputs = inputs, .outputs = outputs, .workspace = workspace.at()}, stream);
  NEAP_CHECK_CUDA(cudaDeviceSynchronize());
  CudaContext::get().throw_fault();
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool is_aliased = way.alias && way.alias->output == i;
    const DeviceBytes& from = is_aliased ? *in[way.alias->input] : *out[i];
    results.push_back(way.without == i ? HostTensor() : from.read(call.outputs[i]));
  }
  for (const std::uint8_t i : call.op->mutates) {
    if (call.has(i)) results.push_back(in[i]->read(call.in(i)));
  }
  return results;
}

void expect_bits(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want, const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i].data.empty()) continue;
    EXPECT_TRUE(got[i].data == want[i].data) << what << " output " << i;
  }
}

void check_kernel(const NodeCase& c, Kernel& kernel, const std::string& what) {
  const auto first = run(c, kernel, {});
  for (std::size_t i = 0; i < c.want.size(); ++i) {
    expect_same(first[i], *c.want[i], c.tolerance, fmt::format("{} output {}", what, i));
  }
  expect_bits(run(c, kernel, {}), first, what + " again");
  for (const InOut alias : c.call.op->in_place) {
    const bool fits = alias.output < c.call.outputs.size() && c.call.has(alias.input) &&
                      c.call.in(alias.input).bytes() == c.call.outputs[alias.output].bytes();
    if (fits) expect_bits(run(c, kernel, {.alias = alias}), first, fmt::format("{} over {}", what, alias.input));
  }
  for (std::size_t i = 0; i < c.call.outputs.size(); ++i) {
    const bool is_optional = i < 32 && (c.call.op->optional_outputs >> i & 1U) != 0;  // one bit each
    if (is_optional && c.call.outputs.size() > 1) {
      expect_bits(run(c, kernel, {.without = i}), first, fmt::format("{} without output {}", what, i));
    }
  }
}

}  // namespace

void check_node_on_cuda(const NodeCase& c) {
  for (std::size_t k = 0; k < c.call.op->kernel_count; ++k) {
    const KernelEntry& entry = c.call.op->kernels[k];
    if (entry.device != DeviceKind::kCuda || (has_bf16(c.call) && !entry.mixed)) continue;
    ASSERT_NE(entry.prepare, nullptr) << c.call.op->name;
    Prepared prepared = entry.prepare(c.call);
    auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared);
    if (kernel != nullptr) check_kernel(c, **kernel, fmt::format("{} by {}", c.what, entry.name));
  }
}

std::vector<HostTensor> run_node_on_cuda(const OpCall& call, const std::vector<const HostTensor*>& inputs) {
  for (std::size_t k = 0; k < call.op->kernel_count; ++k) {
    const KernelEntry& entry = call.op->kernels[k];
    if (entry.device != DeviceKind::kCuda || entry.prepare == nullptr) continue;
    Prepared prepared = entry.prepare(call);
    auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared);
    if (kernel != nullptr) return run({.call = call, .inputs = inputs}, **kernel, {});
  }
  return {};
}

}  // namespace neap
