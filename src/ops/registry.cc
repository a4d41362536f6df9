#include <array>
#include <unordered_map>

#include "graph/op.h"
#include "ops/custom.h"

namespace neap {
namespace ops {
#define NEAP_OP(name) extern const OpDef name;
#include "ops/registry.inc"  // NOLINT(bugprone-suspicious-include)
#undef NEAP_OP
}  // namespace ops

namespace {

constexpr std::array kOps = {
#define NEAP_OP(name) &ops::name,
#include "ops/registry.inc"  // NOLINT(bugprone-suspicious-include)
#undef NEAP_OP
};

}  // namespace

std::span<const OpDef* const> all_ops() { return kOps; }

const OpDef* find_op(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const OpDef*>;  // lives as long as the program
    for (const OpDef* op : kOps) map->emplace(op->name, op);
    return map;
  }();
  const auto at = by_name->find(name);
  return at == by_name->end() ? find_custom_op(name) : at->second;
}

}  // namespace neap
