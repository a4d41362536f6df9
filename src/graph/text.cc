#include "graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/random.h"
#include "graph/op.h"

namespace neap {
namespace text {

bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_word_char(char c) {
  return is_word_start(c) || (c >= '0' && c <= '9') || c == '.' || c == ':' || c == '/' || c == '-';
}

bool is_keyword(std::string_view word) {
  static constexpr std::array kWords = {"input",    "param",      "frozen", "buffer", "optimizer",
                                        "constant", "activation", "output", "none",   "as"};
  const bool is_phase = std::any_of(kPhases.begin(), kPhases.end(), [&](const auto& p) { return p.first == word; });
  return is_phase || std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace text

namespace {

std::string hex(unsigned char byte) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  return {kDigits[byte / 16], kDigits[byte % 16]};
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += "\\x" + hex(static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string word(std::string_view name) {
  const bool is_plain = !name.empty() && text::is_word_start(name[0]) && !text::is_keyword(name) &&
                        std::all_of(name.begin(), name.end(), text::is_word_char);
  return is_plain ? std::string(name) : quoted(name);
}

// Shortest form that reads back to the same double, and never looks like an integer.
std::string real(double value) {
  std::string out = fmt::format("{}", value);
  if (std::isfinite(value) && out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += between;
    out += part;
  }
  return out;
}

template <class List, class Print>
std::string list(const List& values, Print print) {
  std::vector<std::string> parts;
  for (const auto& value : values) parts.push_back(print(value));
  return '[' + joined(parts, ",") + ']';
}

std::string attribute(const AttrValue& value) {
  struct Printer {
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return real(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(const Ints& v) const { return list(v, *this); }
    std::string operator()(const std::vector<double>& v) const { return "reals" + list(v, *this); }
    std::string operator()(const Shape& v) const { return "shape" + v.text(); }
  };
  return std::visit(Printer(), value);
}

std::string data_text(std::span<const std::byte> data) {
  if (data.size() > text::kMaxConstantBytes) {
    return fmt::format(" = hash {:016x} of {} bytes", hash_bytes(data.data(), data.size()), data.size());
  }
  std::string out = " = ";
  for (const std::byte b : data) out += hex(static_cast<unsigned char>(b));
  return out;
}

std::string leaf_line(const Tensor& t) {
  const bool is_frozen = t.role == Role::kParameter && !t.trainable;
  std::string line = fmt::format("{} {} {}", is_frozen ? text::kFrozen : name(t.role), word(t.name), t.type.text());
  if (!(t.init == Init{})) {
    const auto kind = static_cast<std::size_t>(t.init.kind);
    line += fmt::format(" {}({})", text::kInits[kind].first, real(t.init.scale));
  }
  if (t.data && t.role == Role::kConstant) line += data_text(t.data->bytes);
  return line + '\n';
}

std::string node_line(const Graph& graph, const Node& node) {
  std::vector<std::string> outputs;
  std::vector<std::string> inputs;
  std::vector<std::string> attrs;
  for (const TensorId id : node.outputs) outputs.push_back(word(graph.at(id).name) + ' ' + graph.at(id).type.text());
  for (const TensorId id : node.inputs) inputs.push_back(id ? word(graph.at(id).name) : std::string(text::kNone));
  for (const auto& [key, value] : node.attrs) attrs.push_back(word(key) + '=' + attribute(value));
  std::string line = joined(outputs, ", ") + (outputs.empty() ? "= " : " = ");
  line += fmt::format("{}({})", node.op->name, joined(inputs, ", "));
  if (!attrs.empty()) line += " {" + joined(attrs, ", ") + '}';
  if (!node.layer.empty()) line += " @" + word(node.layer);
  if (node.phase != Phase::kForward) {
    line += fmt::format(" {}", text::kPhases[static_cast<std::size_t>(node.phase)].first);
  }
  const bool is_named_alike = !node.outputs.empty() && graph.at(node.outputs[0]).name == node.name;
  if (!is_named_alike) line += " as " + word(node.name);
  return line + '\n';
}

}  // namespace

// A leaf stands where its id puts it among the nodes' outputs, so that reading gives every tensor its id again.
std::string print(const Graph& graph) {
  std::string out;
  std::size_t next = 0;
  const auto print_leaves_until = [&](std::size_t end) {
    for (; next < end; ++next) {
      if (!graph.tensors[next].producer) out += leaf_line(graph.tensors[next]);
    }
  };
  for (const Node& node : graph.nodes) {
    std::size_t needed = node.outputs.empty() ? next : node.outputs[0].index;
    for (const TensorId id : node.inputs) {
      if (id && !graph.at(id).producer) needed = std::max<std::size_t>(needed, id.index + 1);
    }
    print_leaves_until(needed);
    out += node_line(graph, node);
  }
  print_leaves_until(graph.tensors.size());
  for (const auto& [label, id] : graph.outputs) {
    out += fmt::format("{} {} = {}\n", text::kOutput, word(label), word(graph.at(id).name));
  }
  return out;
}

}  // namespace neap
