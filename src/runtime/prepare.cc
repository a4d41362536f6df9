#include "runtime/prepare.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/random.h"
#include "device/geared_kernel.h"
#include "graph/op.h"
#include "neap/error.h"
#include "ops/convert_kernel.h"
#include "ops/kernel.h"

namespace neap {
namespace {

struct Choice {
  std::shared_ptr<Kernel> kernel;
  std::string name;
};

std::string attr_text(const AttrValue& value) {
  struct Visitor {
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{:a}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Ints& v) const { return fmt::format("{}", fmt::join(v, ",")); }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("{:a}", fmt::join(v, ",")); }
    std::string operator()(const Shape& v) const { return v.text(); }
  };
  return std::visit(Visitor{}, value);
}

// Two calls with the same signature share a kernel.
std::string signature(const OpCall& call) {
  std::string text(call.op->name);
  for (const auto& t : call.inputs) text += " " + (t ? t->text() : std::string("-"));
  text += " ->";
  for (const TensorType& t : call.outputs) text += " " + t.text();
  for (const auto& [key, value] : call.attrs) text += fmt::format(" {}={}", key, attr_text(value));
  return text;
}

// Of a kernel with gears, what its bits depend on: how it was told to run, what it keeps or makes again is no part of
// it.
std::string numerics_signature(const OpCall& call) {
  std::string text(call.op->name);
  if (!call.outputs.empty()) text += " " + call.outputs[0].text();
  for (const auto& [key, value] : call.attrs) {
    if (key != "unroll" && key != "gates") text += fmt::format(" {}={}", key, attr_text(value));
  }
  return text;
}

Choice choose(const OpCall& call, DeviceKind device, bool own_only);

Choice choose_converting(const OpCall& call, DeviceKind device, bool own_only) {
  std::string name;
  auto kernel = converting_kernel(
      call,
      [&](const OpCall& wide) {
        Choice inner = choose(wide, device, own_only);
        name = inner.name;
        return std::move(inner.kernel);
      },
      device);
  return {std::move(kernel), name + "+convert"};
}

// The op itself takes bf16, but its reference kernel alone: for f32 there is a better one.
bool is_better_wide(const OpCall& call, bool own_only) {
  const OpCall wide = widened(call);
  return has_bf16(call) && is_native(wide) && choose(wide, DeviceKind::kCpu, own_only).name != "ref";
}

Choice choose(const OpCall& call, DeviceKind device, bool own_only) {
  std::string reasons;
  const bool is_mixed = has_bf16(call) && (device == DeviceKind::kCuda || !is_native(call));
  for (std::size_t i = 0; i < call.op->kernel_count; ++i) {
    const KernelEntry& entry = call.op->kernels[i];
    const bool is_linked = entry.prepare != nullptr;
    if (entry.device != device || !is_linked || (own_only && entry.name == "onednn")) continue;
    if (is_mixed && !entry.mixed) continue;
    if (entry.name == "ref" && device == DeviceKind::kCpu && !is_mixed && is_better_wide(call, own_only)) {
      return choose_converting(call, device, own_only);
    }
    Prepared prepared = entry.prepare(call);
    if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared))
      return {std::move(*kernel), std::string(entry.name)};
    reasons += fmt::format("; {}: {}", entry.name, std::get<Declined>(prepared).why);
  }
  if (is_mixed) return choose_converting(call, device, own_only);
  if (device == DeviceKind::kCuda) {
    throw UserError(
        fmt::format("no CUDA kernel for {} yet; use --device cpu ({}{})", call.op->name, signature(call), reasons));
  }
  throw UserError(
      fmt::format("{} has no kernel on {} for {}{}", call.op->name, name(device), signature(call), reasons));
}

}  // namespace

Program prepare(Graph graph, Device& device, bool own_only) {
  Program out;
  std::unordered_map<std::string, Choice> known;
  std::uint64_t id = hash_text(device.numerics());
  for (const Node& node : graph.nodes) {
    const OpCall call = call_of(graph, node);
    const bool is_window = node.op->view_offset != nullptr && node.op->view_offset(call).has_value();
    Choice choice;
    if (!is_window && device.kind() != DeviceKind::kNull) {
      const std::string key = signature(call);
      const auto at = known.find(key);
      choice = at != known.end() ? at->second : (known[key] = choose(call, device.kind(), own_only));
      const bool has_gears = dynamic_cast<const GearedKernel*>(choice.kernel.get()) != nullptr;
      id = hash_text(
          fmt::format("{} {} {}", has_gears ? numerics_signature(call) : key, choice.name, choice.kernel->numerics()),
          id);
    }
    out.costs.workspace.push_back(choice.kernel ? choice.kernel->workspace_bytes() : 0);
    out.costs.ms.push_back(0);
    out.kernels.push_back(std::move(choice.kernel));
    out.kernel_names.push_back(std::move(choice.name));
  }
  out.numerics_id = fmt::format("{:016x}", id);
  out.graph = std::move(graph);
  return out;
}

}  // namespace neap
