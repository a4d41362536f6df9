#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

using Table = std::map<std::string_view, EmitRule>;

Table make_table() {
  Table out;
  for (const auto family :
       {emit_elementwise(), emit_image(), emit_norm(), emit_product(), emit_recurrent(), emit_shape()}) {
    for (const EmitEntry& entry : family) out.emplace(entry.op, entry.rule);
  }
  return out;
}

}  // namespace

EmitRule find_emit_rule(std::string_view op) {
  static const Table table = make_table();
  const auto at = table.find(op);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace neap::onnx
