// If and Loop where they fold, and Scan: their bodies are laid out one run behind the other.
#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

bool any_failed(const std::vector<Operand>& results) {
  return std::any_of(results.begin(), results.end(), [](const Operand& x) { return x.failed; });
}

// The cause was reported by the node inside.
void give_up(Context& c) {
  for (Operand& x : c.outputs()) x = {.failed = true};
}

void choose(Context& c) {
  const bool takes_then = c.integer(0) != 0;
  std::vector<Operand> results = c.run_subgraph(takes_then ? "then_branch" : "else_branch", {});
  for (std::size_t i = 0; i < results.size(); ++i) c.out(i, std::move(results[i]));
}

Operand operand_of(Constant constant) {
  const TensorType type = constant.type;
  return {.type = type, .constant = std::make_shared<const Constant>(std::move(constant))};
}

Operand truth() { return operand_of({.type = {DType::kBool, {}}, .data = Blob::of({std::byte{1}})}); }

// Pieces one behind the other along a new axis.
Value stacked(Context& c, const std::vector<Operand>& pieces, int axis, bool reverses) {
  Values parts;
  for (const Operand& piece : pieces) {
    Shape shape;
    for (int i = 0; i <= piece.type.shape.rank(); ++i) {
      shape.push_back(i == axis ? Dim(1) : piece.type.shape[i < axis ? i : i - 1]);
    }
    parts.push_back(c.reshape(c.moved(piece, {}), shape));
  }
  if (reverses) parts = Values(parts.rbegin(), parts.rend());
  return parts.size() == 1 ? parts[0] : c.add("concat", parts, {{"axis", static_cast<std::int64_t>(axis)}});
}

void loop(Context& c) {
  const std::int64_t trips = c.has(0) ? c.integer(0) : kMaxRuns + 1;
  bool goes_on = !c.has(1) || c.integer(1) != 0;
  std::vector<Operand> carried;
  for (std::size_t i = 2; i < c.inputs(); ++i) carried.push_back(c.operand(i));
  const std::size_t states = carried.size();
  std::vector<std::vector<Operand>> scans;
  std::int64_t run = 0;
  for (; run < trips && goes_on; ++run) {
    if (run >= kMaxRuns) throw UserError(fmt::format("more than {} runs of a loop are not supported", kMaxRuns));
    std::vector<Operand> operands = {operand_of(make_scalar(run)), truth()};
    operands.insert(operands.end(), carried.begin(), carried.end());
    std::vector<Operand> results = c.run_subgraph("body", std::move(operands));
    if (any_failed(results)) return give_up(c);
    if (results.size() < 1 + states) throw UserError("the body gives too few results");
    if (!results[0].constant) throw UserError("whether the loop goes on must be known before training starts");
    const Ints answer = ints_of(*results[0].constant);
    if (answer.size() != 1) throw UserError("whether the loop goes on must be one value");
    goes_on = answer[0] != 0;
    carried.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(states));
    scans.resize(results.size() - 1 - states);
    for (std::size_t i = 0; i < scans.size(); ++i) scans[i].push_back(results[1 + states + i]);
  }
  for (std::size_t i = 0; i < states; ++i) c.out(i, carried[i]);
  for (std::size_t i = 0; i < scans.size(); ++i) c.out(states + i, stacked(c, scans[i], 0, false));
}

void scan(Context& c) {
  const std::int64_t count = c.integer("num_scan_inputs");
  if (count < 1 || count > static_cast<std::int64_t>(c.inputs())) throw UserError("num_scan_inputs does not fit");
  const auto scanned = static_cast<std::size_t>(count);
  const std::size_t states = c.inputs() - scanned;
  const Ints in_axes = c.ints("scan_input_axes", Ints(scanned, 0));
  const Ints in_directions = c.ints("scan_input_directions", Ints(scanned, 0));
  if (in_axes.size() != scanned || in_directions.size() != scanned) throw UserError("scan inputs do not fit");
  std::vector<Operand> carried;
  for (std::size_t i = 0; i < states; ++i) carried.push_back(c.operand(i));
  const auto axis_of = [&](std::size_t i) { return plain_axis(in_axes[i], c.rank(states + i)); };
  const std::int64_t runs = c.shape(states).size(axis_of(0));
  if (runs > kMaxRuns) throw UserError(fmt::format("more than {} runs of a scan are not supported", kMaxRuns));
  std::vector<std::vector<Operand>> scans;
  for (std::int64_t run = 0; run < runs; ++run) {
    std::vector<Operand> operands = carried;
    for (std::size_t i = 0; i < scanned; ++i) {
      const std::int64_t at = in_directions[i] != 0 ? runs - 1 - run : run;
      const int axis = axis_of(i);
      Shape shape;
      for (int a = 0; a < c.rank(states + i); ++a) {
        if (a != axis) shape.push_back(c.shape(states + i)[a]);
      }
      const Value one =
          c.add("slice", {c.in(states + i)}, {{"axes", Ints{axis}}, {"starts", Ints{at}}, {"ends", Ints{at + 1}}});
      const Value value = c.reshape(one, shape);
      operands.push_back({.type = c.g.type(value), .value = value});
    }
    const std::vector<Operand> results = c.run_subgraph("body", std::move(operands));
    if (any_failed(results)) return give_up(c);
    if (results.size() < states) throw UserError("the body gives too few results");
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states));
    scans.resize(results.size() - states);
    for (std::size_t i = 0; i < scans.size(); ++i) scans[i].push_back(results[states + i]);
  }
  for (std::size_t i = 0; i < states; ++i) c.out(i, carried[i]);
  const Ints axes = c.ints("scan_output_axes", Ints(scans.size(), 0));
  const Ints directions = c.ints("scan_output_directions", Ints(scans.size(), 0));
  if (axes.size() != scans.size() || directions.size() != scans.size()) throw UserError("scan outputs do not fit");
  for (std::size_t i = 0; i < scans.size(); ++i) {
    const int axis = plain_axis(axes[i], scans[i][0].type.shape.rank() + 1);
    c.out(states + i, stacked(c, scans[i], axis, directions[i] != 0));
  }
}

constexpr RuleEntry kRules[] = {{"If", choose, 1, false}, {"Loop", loop, 1, false}, {"Scan", scan, 9, false}};

}  // namespace

std::span<const RuleEntry> control_rules() { return kRules; }

}  // namespace neap::onnx
