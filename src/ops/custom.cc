#include "ops/custom.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "neap/error.h"
#include "neap/op.h"
#include "ops/kernel.h"

namespace neap {
namespace {

// An op's definition with the rules that its functions look up. Lives as long as the process.
struct CustomOp : OpDef {
  OpRules rules;
};

const OpRules& rules_of(const OpDef* op) { return static_cast<const CustomOp*>(op)->rules; }

OpTypes types_of(const OpCall& call) { return {.attrs = call.attrs, .inputs = call.inputs, .outputs = call.outputs}; }

Types infer(const OpCall& call) { return rules_of(call.op).infer(types_of(call)); }

Values gradient(GradientCall& c) {
  const OpRules& rules = rules_of(c.node.op);
  Values out = rules.gradient(OpGradient{
      .g = c.g, .attrs = c.node.attrs, .x = c.node.inputs, .y = c.node.outputs, .dy = c.dy, .wanted = c.wanted});
  if (out.size() > c.node.inputs.size()) {
    throw UserError(fmt::format("the gradient of op '{}' has {} values for {} inputs", rules.name, out.size(),
                                c.node.inputs.size()));
  }
  out.resize(c.node.inputs.size());
  return out;
}

class CustomKernel final : public Kernel {
 public:
  explicit CustomKernel(const OpCall& call)
      : run_(rules_of(call.op).run), attrs_(call.attrs), inputs_(call.inputs), outputs_(call.outputs) {
    const OpRules& rules = rules_of(call.op);
    if (rules.workspace) workspace_ = rules.workspace(types());
    if (workspace_ < 0) throw UserError(fmt::format("op '{}' wants {} bytes of workspace", rules.name, workspace_));
  }
  std::int64_t workspace_bytes() const override { return workspace_; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const OpTypes call = types();
    run_(OpData{.types = call, .inputs = b.inputs, .outputs = b.outputs, .workspace = b.workspace});
  }

 private:
  OpTypes types() const { return {.attrs = attrs_, .inputs = inputs_, .outputs = outputs_}; }

  const std::function<void(const OpData&)>& run_;
  Attrs attrs_;
  std::vector<std::optional<TensorType>> inputs_;
  std::vector<TensorType> outputs_;
  std::int64_t workspace_ = 0;
};

Prepared prepare(const OpCall& call) { return std::make_unique<CustomKernel>(call); }

constexpr KernelEntry kKernels[] = {{"custom", DeviceKind::kCpu, prepare}};
constexpr InOut kInPlace[] = {{0, 0}};

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CustomOp>, std::less<>> ops;
};

Registry& registry() {
  static auto* const all = new Registry;  // graphs may outlive every other static object
  return *all;
}

}  // namespace

const OpDef* find_custom_op(std::string_view name) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  const auto at = all.ops.find(name);
  return at == all.ops.end() ? nullptr : at->second.get();
}

const TensorType& OpTypes::in(std::size_t input) const {
  if (!has(input)) throw UserError(fmt::format("input {} is missing", input));
  return *inputs[input];
}

void register_op(OpRules rules) {
  if (rules.name.empty() || !rules.infer || !rules.run) {
    throw UserError(fmt::format("op '{}' needs a name, infer and run", rules.name));
  }
  if (find_op(rules.name) != nullptr) throw UserError(fmt::format("there is an op '{}' already", rules.name));
  auto op = std::make_unique<CustomOp>();
  op->rules = std::move(rules);
  op->name = op->rules.name;
  op->infer = infer;
  op->gradient = op->rules.gradient ? gradient : nullptr;
  op->kernels = kKernels;
  op->kernel_count = std::size(kKernels);
  op->cheap = op->rules.cheap;
  if (op->rules.in_place) op->in_place = kInPlace;
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  std::string name = op->rules.name;
  all.ops.emplace(std::move(name), std::move(op));
}

}  // namespace neap
