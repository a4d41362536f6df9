// Matrix products and sums over letters.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

// A product with a weight is a layer; the weight keeps its layout, or the transposed one where the file says so.
bool linear(Context& c, std::size_t weight) {
  const Operand& w = c.operand(weight);
  if (!w.weight || w.type.shape.rank() != 2 || c.rank(0) < 2 || c.dtype(0) != DType::kF32) return false;
  const bool is_turned = !w.axes.empty() && !is_identity(w.axes);
  const Value value = is_turned ? c.moved(weight, Perm{1, 0}) : c.in(weight);
  c.out(0, c.add("linear", {c.in(0), value}, {{"transposed", static_cast<std::int64_t>(is_turned ? 0 : 1)}}));
  return true;
}

void matmul(Context& c) {
  if (linear(c, 1)) return;
  c.out(0, c.add("matmul", {c.in(0), c.in(1)}));
}

bool is_bias(const Operand& x, std::int64_t columns) {
  const Shape& shape = x.type.shape;
  return shape.rank() >= 1 && shape.count() == columns && shape.size(-1) == columns;
}

void gemm(Context& c) {
  if (c.rank(0) != 2 || c.rank(1) != 2) throw UserError("it takes matrices");
  const double alpha = c.real("alpha", 1);
  const double beta = c.real("beta", 1);
  const bool turns_a = c.integer("transA", 0) != 0;
  const bool turns_b = c.integer("transB", 0) != 0;
  const std::int64_t columns = c.shape(1).size(turns_b ? 0 : 1);
  const Value a = turns_a ? c.moved(0, Perm{1, 0}) : c.in(0);
  const bool is_layer = c.operand(1).weight && alpha == 1 && c.dtype(0) == DType::kF32;
  const bool has_bias = c.has(2) && beta == 1 && is_bias(c.operand(2), columns);
  Value y;
  if (is_layer) {
    Values x = {a, c.in(1)};
    if (has_bias) x.push_back(c.reshape(c.in(2), {columns}));
    y = c.add("linear", x, {{"transposed", static_cast<std::int64_t>(turns_b ? 0 : 1)}});
    if (has_bias || !c.has(2)) return c.out(0, y);
  } else {
    y = c.add("matmul", {a, c.in(1)}, {{"trans_b", static_cast<std::int64_t>(turns_b)}, {"alpha", alpha}});
  }
  if (!c.has(2) || beta == 0) return c.out(0, y);
  const DType type = c.dtype(2);
  const Value bias = beta == 1 ? c.in(2) : c.add("mul", {c.in(2), c.scalar(beta, type)});
  c.out(0, c.add("add", {y, bias}));
}

// One operand of a sum over letters: a tensor whose axes have names.
struct Term {
  Value value;
  std::string letters;
};

struct Sum {
  std::vector<std::string> operands;
  std::string result;
};

Sum parse(std::string text, std::size_t inputs) {
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Sum out;
  for (std::size_t at = 0; at <= left.size();) {
    const std::size_t comma = std::min(left.find(',', at), left.size());
    out.operands.push_back(left.substr(at, comma - at));
    at = comma + 1;
  }
  if (out.operands.size() != inputs) {
    throw UserError(fmt::format("the equation has {} operands, the node {}", out.operands.size(), inputs));
  }
  if (arrow != std::string::npos) {
    out.result = text.substr(arrow + 2);
    return out;
  }
  std::map<char, int> seen;
  for (const char letter : left) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0) ++seen[letter];
  }
  if (left.find("...") != std::string::npos) out.result = "...";
  for (const auto& [letter, times] : seen) {
    if (times == 1) out.result += letter;
  }
  return out;
}

// Digits stand for the axes of an ellipsis, the last one first, so that they are aligned from the right.
std::string without_ellipsis(const std::string& letters, int axes) {
  const std::size_t at = letters.find("...");
  if (at == std::string::npos) return letters;
  std::string digits;
  for (int i = axes; i-- > 0;) digits += static_cast<char>('0' + i);
  return letters.substr(0, at) + digits + letters.substr(at + 3);
}

// The letters' axes put into this order; a letter that is missing becomes an axis of 1.
Value arranged(Context& c, const Term& t, const std::string& order) {
  Perm perm;
  Shape shape;
  for (const char letter : order) {
    const std::size_t at = t.letters.find(letter);
    if (at != std::string::npos) perm.push_back(static_cast<int>(at));
    shape.push_back(at == std::string::npos ? Dim(1) : c.g.shape(t.value)[static_cast<int>(at)]);
  }
  return c.reshape(c.transpose(t.value, perm), shape);
}

// A letter twice in one operand: the diagonal, by a mask and a sum.
Term diagonal(Context& c, Term t) {
  for (std::size_t i = 0; i < t.letters.size(); ++i) {
    const std::size_t j = t.letters.find(t.letters[i], i + 1);
    if (j == std::string::npos) continue;
    const std::int64_t n = c.g.shape(t.value).size(static_cast<int>(i));
    Shape rows(std::vector<Dim>(t.letters.size(), Dim(1)));
    Shape columns = rows;
    rows[static_cast<int>(i)] = n;
    columns[static_cast<int>(j)] = n;
    const Value count = c.add("range", {}, {{"shape", Shape{n}}, {"dtype", std::string("i64")}});
    const Value mask = c.add("equal", {c.reshape(count, rows), c.reshape(count, columns)});
    const Value only = c.add("where", {mask, t.value, c.scalar(0, c.g.type(t.value).dtype)});
    t.value =
        c.add("reduce_sum", {only}, {{"axes", Ints{static_cast<std::int64_t>(j)}}, {"keepdims", std::int64_t{0}}});
    t.letters.erase(j, 1);
    i = static_cast<std::size_t>(-1);
  }
  return t;
}

Term summed(Context& c, Term t, const std::set<char>& needed) {
  Ints axes;
  std::string kept;
  for (std::size_t i = 0; i < t.letters.size(); ++i) {
    if (needed.contains(t.letters[i])) {
      kept += t.letters[i];
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty()) return t;
  return {c.add("reduce_sum", {t.value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}), kept};
}

Dim product(const Shape& shape, std::size_t from, std::size_t to) {
  Dim out = 1;
  for (std::size_t i = from; i < to; ++i) out = out * shape[static_cast<int>(i)];
  return out;
}

// Letters in both and still needed go along; letters in both and not needed are summed over.
Term joined(Context& c, const Term& a, const Term& b, const std::set<char>& needed) {
  std::string batch, sum, left, right;
  for (const char l : a.letters) {
    const bool in_both = b.letters.find(l) != std::string::npos;
    (in_both ? (needed.contains(l) ? batch : sum) : left) += l;
  }
  for (const char l : b.letters) {
    if (a.letters.find(l) == std::string::npos) right += l;
  }
  const Value x = arranged(c, a, batch + left + sum);
  const Value y = arranged(c, b, batch + sum + right);
  if (sum.empty()) {
    const std::string order = batch + left + right;
    return {c.add("mul", {arranged(c, a, order), arranged(c, b, order)}), order};
  }
  const Shape xs = c.g.shape(x);
  const Shape ys = c.g.shape(y);
  Shape x3, y3, result;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    x3.push_back(xs[static_cast<int>(i)]);
    y3.push_back(ys[static_cast<int>(i)]);
  }
  result = broadcast(x3, y3);
  const std::size_t cut = batch.size() + left.size();
  for (std::size_t i = batch.size(); i < cut; ++i) result.push_back(xs[static_cast<int>(i)]);
  for (std::size_t i = batch.size() + sum.size(); i < static_cast<std::size_t>(ys.rank()); ++i) {
    result.push_back(ys[static_cast<int>(i)]);
  }
  x3.push_back(product(xs, batch.size(), cut));
  x3.push_back(product(xs, cut, static_cast<std::size_t>(xs.rank())));
  y3.push_back(product(ys, batch.size(), batch.size() + sum.size()));
  y3.push_back(product(ys, batch.size() + sum.size(), static_cast<std::size_t>(ys.rank())));
  const Value z = c.add("matmul", {c.reshape(x, x3), c.reshape(y, y3)});
  return {c.reshape(z, result), batch + left + right};
}

void einsum(Context& c) {
  Sum sum = parse(c.text("equation", ""), c.inputs());
  int hidden = 0;
  for (std::size_t i = 0; i < sum.operands.size(); ++i) {
    std::string& letters = sum.operands[i];
    const bool has_dots = letters.find("...") != std::string::npos;
    const int named = static_cast<int>(letters.size()) - (has_dots ? 3 : 0);
    const int axes = c.rank(i) - named;
    if (axes < 0 || (axes > 0 && !has_dots) || axes > 9) throw UserError("the equation does not fit the ranks");
    letters = without_ellipsis(letters, axes);
    hidden = std::max(hidden, axes);
  }
  sum.result = without_ellipsis(sum.result, hidden);
  const auto needed_behind = [&](std::size_t from) {
    std::set<char> needed(sum.result.begin(), sum.result.end());
    for (std::size_t i = from; i < sum.operands.size(); ++i)
      needed.insert(sum.operands[i].begin(), sum.operands[i].end());
    return needed;
  };
  Term total = diagonal(c, {c.in(0), sum.operands[0]});
  total = summed(c, total, needed_behind(1));
  for (std::size_t i = 1; i < sum.operands.size(); ++i) {
    Term next = diagonal(c, {c.in(i), sum.operands[i]});
    std::set<char> needed = needed_behind(i + 1);
    std::set<char> here = needed;
    here.insert(total.letters.begin(), total.letters.end());
    next = summed(c, next, here);
    total = joined(c, total, next, needed);
    total = summed(c, total, needed);
  }
  for (const char letter : sum.result) {
    if (total.letters.find(letter) == std::string::npos) throw UserError(fmt::format("no operand has '{}'", letter));
  }
  c.out(0, arranged(c, total, sum.result));
}

constexpr RuleEntry kRules[] = {{"MatMul", matmul}, {"Gemm", gemm, 7}, {"Einsum", einsum}};

}  // namespace

std::span<const RuleEntry> product_rules() { return kRules; }

}  // namespace neap::onnx
