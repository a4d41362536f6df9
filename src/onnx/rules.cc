#include <algorithm>
#include <array>
#include <map>

#include "onnx/context.h"

namespace neap::onnx {
namespace {

using Table = std::map<std::string_view, const RuleEntry*>;

Table make_table() {
  Table out;
  for (const auto rules : all_rules()) {
    for (const RuleEntry& rule : rules) out.emplace(rule.op, &rule);
  }
  return out;
}

}  // namespace

std::vector<std::span<const RuleEntry>> all_rules() {
  return {elementwise_rules(), shape_rules(),   constant_rules(), index_rules(), reduce_rules(),
          product_rules(),     image_rules(),   resize_rules(),   norm_rules(),  loss_rules(),
          recurrent_rules(),   control_rules(), quantize_rules(), signal_rules()};
}

const RuleEntry* find_rule(std::string_view domain, std::string_view op) {
  if (!domain.empty() && domain != "ai.onnx") return nullptr;
  static const Table table = make_table();
  const auto at = table.find(op);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace neap::onnx
