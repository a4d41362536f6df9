#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "graph/op.h"
#include "graph/text.h"
#include "neap/error.h"

namespace neap {
namespace {

[[noreturn]] void bad(const std::string& what) { throw UserError(what); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <class Number>
Number number(std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) bad(fmt::format("'{}' is not a number", text));
  return value;
}

// One line, read from left to right.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) { skip_spaces(); }

  bool at_end() const { return text_.empty(); }
  bool sees(char c) const { return !text_.empty() && text_[0] == c; }
  bool takes(char c) {
    if (!sees(c)) return false;
    text_.remove_prefix(1);
    skip_spaces();
    return true;
  }
  void expect(char c) {
    if (!takes(c)) bad(fmt::format("'{}' is missing before {}", c, rest()));
  }

  // The plain word that comes next, without taking it; empty when there is none.
  std::string_view peek() const {
    if (text_.empty() || !text::is_word_start(text_[0])) return {};
    return until([](char c) { return !text::is_word_char(c); });
  }
  bool takes(std::string_view word) {
    if (peek() != word) return false;
    drop(word.size());
    return true;
  }
  // A plain word, or any text in quotes.
  std::string name() {
    if (sees('"')) return string();
    const std::string_view word = peek();
    if (word.empty()) bad(fmt::format("a name is missing before {}", rest()));
    if (text::is_keyword(word)) bad(fmt::format("'{}' has a meaning of its own; a name would be in quotes", word));
    drop(word.size());
    return std::string(word);
  }
  std::string string() {
    std::string out;
    std::size_t i = 1;
    for (; i < text_.size() && text_[i] != '"'; ++i) {
      if (text_[i] != '\\') {
        out += text_[i];
      } else {
        i += escaped(text_.substr(i + 1), out);
      }
    }
    if (i >= text_.size()) bad(fmt::format("a quote is open: {}", rest()));
    drop(i + 1);
    return out;
  }
  // Up to a separator.
  std::string_view token() {
    const std::string_view t = until([](char c) { return c == ',' || c == '}' || c == ')' || c == ' ' || c == '#'; });
    drop(t.size());
    return t;
  }
  // [...], taken as it stands.
  std::string_view brackets() {
    const std::size_t end = text_.find(']');
    if (!sees('[') || end == std::string_view::npos) bad(fmt::format("[...] is missing before {}", rest()));
    const std::string_view t = text_.substr(0, end + 1);
    drop(t.size());
    return t;
  }
  // For messages: what comes next.
  std::string rest() const { return text_.empty() ? "the line's end" : fmt::format("'{}'", text_.substr(0, 40)); }

 private:
  // Appends what the characters after a backslash stand for; returns how many they are.
  static std::size_t escaped(std::string_view after, std::string& out) {
    if (after.starts_with('"') || after.starts_with('\\')) {
      out += after[0];
      return 1;
    }
    if (after.size() >= 3 && after[0] == 'x' && hex_digit(after[1]) >= 0 && hex_digit(after[2]) >= 0) {
      out += static_cast<char>(hex_digit(after[1]) * 16 + hex_digit(after[2]));
      return 3;
    }
    bad("a backslash in quotes stands before \", \\ or xHH");
  }
  template <class Stop>
  std::string_view until(Stop stops) const {
    std::size_t n = 0;
    while (n < text_.size() && !stops(text_[n])) ++n;
    return text_.substr(0, n);
  }
  void drop(std::size_t n) {
    text_.remove_prefix(n);
    skip_spaces();
  }
  void skip_spaces() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t' || text_[0] == '\r')) text_.remove_prefix(1);
    if (!text_.empty() && text_[0] == '#') text_ = {};
  }

  std::string_view text_;
};

TensorType parse_type(Line& line) {
  const std::string_view word = line.peek();
  const std::optional<DType> dtype = parse_dtype(word);
  if (!dtype || !line.takes(word)) bad(fmt::format("a type such as f32[2,3] is missing before {}", line.rest()));
  TensorType type = {*dtype, Shape::parse(line.brackets())};
  for (const Dim& d : type.shape) {
    if (d.factor() < 0) bad(fmt::format("{} has a negative axis", type.text()));
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (type.shape.elements().factor() > kMost) bad(fmt::format("{} is too large", type.text()));
  return type;
}

// The items of [a,b,c].
std::vector<std::string_view> items(std::string_view brackets) {
  std::string_view inside = brackets.substr(1, brackets.size() - 2);
  std::vector<std::string_view> out;
  while (!inside.empty()) {
    const std::size_t comma = inside.find(',');
    out.push_back(inside.substr(0, comma));
    if (comma == std::string_view::npos) break;
    inside.remove_prefix(comma + 1);
    if (inside.empty()) bad("a comma ends the list");
  }
  return out;
}

template <class Number>
std::vector<Number> numbers(std::string_view brackets) {
  std::vector<Number> out;
  for (const std::string_view item : items(brackets)) out.push_back(number<Number>(item));
  return out;
}

AttrValue parse_attribute(Line& line) {
  if (line.sees('"')) return line.string();
  if (line.sees('[')) return numbers<std::int64_t>(line.brackets());
  if (line.takes("reals")) return numbers<double>(line.brackets());
  if (line.takes("shape")) return Shape::parse(line.brackets());
  const std::string_view token = line.token();
  const bool is_real = token.find_first_of(".en") != std::string_view::npos;
  if (is_real) return number<double>(token);
  return number<std::int64_t>(token);
}

Init parse_init(Line& line) {
  for (const auto& [word, kind] : text::kInits) {
    if (!line.takes(word)) continue;
    line.expect('(');
    const Init init{kind, number<double>(line.token())};
    line.expect(')');
    return init;
  }
  return {};
}

std::vector<std::byte> parse_data(Line& line, const Tensor& t) {
  if (line.takes("hash")) {
    bad(fmt::format("constant '{}' is known by its hash only, {}: its bytes are not in the text", t.name, line.rest()));
  }
  const std::string_view hex = line.token();
  std::vector<std::byte> data;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]);
    const int low = hex_digit(hex[i + 1]);
    if (high < 0 || low < 0) bad(fmt::format("'{}' is not a byte", hex.substr(i, 2)));
    data.push_back(static_cast<std::byte>(high * 16 + low));
  }
  const bool fits =
      hex.size() % 2 == 0 && t.type.shape.is_static() && t.type.bytes() == static_cast<std::int64_t>(data.size());
  if (!fits)
    bad(fmt::format("constant '{}' is {}, which {} hex digits do not fill", t.name, t.type.text(), hex.size()));
  return data;
}

class Parser {
 public:
  void take(Line line) {
    if (line.at_end()) return;
    const std::optional<Role> role = takes_role(line);
    if (role) {
      leaf(line, *role);
    } else if (line.takes(text::kFrozen)) {
      leaf(line, Role::kParameter, false);
    } else if (line.takes(text::kOutput)) {
      output(line);
    } else {
      node(line);
    }
    if (!line.at_end()) bad(fmt::format("{} is left over", line.rest()));
  }

  Graph graph;

 private:
  static std::optional<Role> takes_role(Line& line) {
    for (const Role role : {Role::kInput, Role::kParameter, Role::kBuffer, Role::kOptimizer, Role::kConstant}) {
      if (line.takes(name(role))) return role;
    }
    return std::nullopt;
  }

  void leaf(Line& line, Role role, bool trainable = true) {
    Tensor t{.name = line.name(), .role = role, .trainable = trainable && role == Role::kParameter};
    t.type = parse_type(line);
    t.init = parse_init(line);
    if (role == Role::kConstant && line.takes('=')) {
      t.data = Blob::of(parse_data(line, t));
    }
    graph.add(std::move(t));
  }

  void output(Line& line) {
    std::string label = line.name();
    line.expect('=');
    graph.outputs.emplace_back(std::move(label), tensor(line));
  }

  TensorId tensor(Line& line) {
    const std::string label = line.name();
    const std::optional<TensorId> id = graph.find(label);
    if (!id) bad(fmt::format("'{}' is read before it is defined", label));
    return *id;
  }

  void node(Line& line) {
    std::vector<std::string> names;
    std::vector<TensorType> types;
    while (!line.takes('=')) {
      if (!names.empty()) line.expect(',');
      names.push_back(line.name());
      types.push_back(parse_type(line));
    }
    Node n{.op = &op_named(line.name())};
    n.inputs = inputs(line);
    n.attrs = attributes(line);
    if (line.takes('@')) n.layer = line.name();
    for (const auto& [word, phase] : text::kPhases) {
      if (line.takes(word)) n.phase = phase;
    }
    if (line.takes("as")) {
      n.name = line.name();
    } else if (!names.empty()) {
      n.name = names[0];
    } else {
      bad("a node without outputs needs a name: ... as NAME");
    }
    append(std::move(n), names, types);
  }

  std::vector<TensorId> inputs(Line& line) {
    std::vector<TensorId> out;
    line.expect('(');
    while (!line.takes(')')) {
      if (!out.empty()) line.expect(',');
      out.push_back(line.takes(text::kNone) ? TensorId{} : tensor(line));
    }
    return out;
  }

  static Attrs attributes(Line& line) {
    Attrs out;
    if (!line.takes('{')) return out;
    while (!line.takes('}')) {
      if (out.size() > 0) line.expect(',');
      const std::string key = line.name();
      if (out.has(key)) bad(fmt::format("attribute '{}' is given twice", key));
      line.expect('=');
      out.set(key, parse_attribute(line));
    }
    return out;
  }

  void append(Node n, const std::vector<std::string>& names, const std::vector<TensorType>& types) {
    for (const std::uint8_t i : n.op->mutates) {
      if (i < n.inputs.size() && n.inputs[i] && !is_state(graph.at(n.inputs[i]).role)) {
        bad(fmt::format("{} changes '{}', which is no state", n.op->name, graph.at(n.inputs[i]).name));
      }
    }
    const Node& made = graph.at(graph.append(std::move(n), names));
    if (made.outputs.size() != names.size()) {
      bad(fmt::format("{} has {} outputs, not {}", made.op->name, made.outputs.size(), names.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const TensorType& inferred = graph.at(made.outputs[i]).type;
      if (!(inferred == types[i])) {
        bad(fmt::format("'{}' is {}, {} gives {}", names[i], types[i].text(), made.op->name, inferred.text()));
      }
    }
  }
};

}  // namespace

Graph parse_graph(std::string_view text) {
  Parser parser;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    try {
      parser.take(Line(text.substr(0, end)));
    } catch (const UserError& e) {
      throw UserError(fmt::format("line {}: {}", line, e.what()));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::move(parser.graph);
}

}  // namespace neap
