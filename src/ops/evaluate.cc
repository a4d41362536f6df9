#include "ops/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/bytes.h"
#include "graph/outside.h"
#include "neap/error.h"
#include "ops/convert_kernel.h"

namespace neap {

std::shared_ptr<Kernel> prepare_cpu_kernel(const OpCall& call, std::string_view named) {
  std::string reasons;
  const bool is_mixed = has_bf16(call) && !is_native(call);
  for (std::size_t i = 0; i < call.op->kernel_count; ++i) {
    const KernelEntry& entry = call.op->kernels[i];
    const bool is_last_resort = i + 1 == call.op->kernel_count;
    if (entry.device != DeviceKind::kCpu || (is_mixed && !entry.mixed)) continue;
    if (!named.empty() && entry.name != named && !is_last_resort) continue;
    Prepared prepared = entry.prepare(call);
    if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared)) return std::move(*kernel);
    reasons += fmt::format("; {}: {}", entry.name, std::get<Declined>(prepared).why);
  }
  if (is_mixed) {
    return converting_kernel(
        call, [&](const OpCall& wide) { return prepare_cpu_kernel(wide, named); }, DeviceKind::kCpu);
  }
  throw InternalError(fmt::format("no CPU kernel for {}{}", call.op->name, reasons));
}

namespace {

class HostStream final : public Stream {};

void run_node(const Graph& graph, const Node& node, std::vector<HostTensor>& values, std::string_view named) {
  const OpCall call = call_of(graph, node);
  const auto view = node.op->view_offset != nullptr ? node.op->view_offset(call) : std::nullopt;
  if (view) {
    HostTensor& out = values[node.outputs[0].index];
    const std::vector<std::byte>& base = values[node.inputs[0].index].data;
    std::copy_n(base.begin() + *view, out.data.size(), out.data.begin());
    return;
  }
  const auto kernel = prepare_cpu_kernel(call, named);
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  alignas(16) std::byte nothing[16] = {};  // the address of an empty tensor: null would say "not given"
  const auto address = [&](TensorId id) {
    std::vector<std::byte>& data = values[id.index].data;
    return data.empty() ? nothing : data.data();
  };
  for (const TensorId id : node.inputs) in.push_back(id ? address(id) : nullptr);
  for (const TensorId id : node.outputs) out.push_back(address(id));
  const auto bytes = static_cast<std::size_t>(align_up(kernel->workspace_bytes() + 1));
  const std::unique_ptr<std::byte, void (*)(void*)> workspace(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kAlignment), bytes)), std::free);
  HostStream stream;
  kernel->launch({.inputs = in, .outputs = out, .workspace = workspace.get()}, stream);
}

}  // namespace

std::vector<HostTensor> evaluate(const Graph& graph, const std::map<std::string, HostTensor>& leaves,
                                 std::string_view kernel) {
  std::vector<HostTensor> values;
  values.reserve(graph.tensors.size());
  for (const Tensor& t : graph.tensors) {
    HostTensor value(t.type);
    if (t.data) value.data = from_outside(t, t.data->data());
    if (const auto at = leaves.find(t.name); at != leaves.end()) {
      require(at->second.data.size() == value.data.size(), "a leaf has the bytes of its type");
      value = at->second;
    }
    values.push_back(std::move(value));
  }
  for (const Node& node : graph.nodes) run_node(graph, node, values, kernel);
  return values;
}

}  // namespace neap
