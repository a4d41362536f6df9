#include "optimize/row_node.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/bytes.h"
#include "graph/op.h"
#include "ops/tiled/rows.h"
#include "ops/tiled/tiled.h"
#include "optimize/row_invariance.h"

namespace neap {
namespace {

// Of the widest value of a chunk: it stays in the second-level caches, and a product is still long enough that copying
// its weight into panels takes a few percent of it.
constexpr std::int64_t kChunkBytes = 1536 * kKiB;
constexpr std::int64_t kLeastPositions = 64;  // rows of the matrix in a product, positions in a convolution
constexpr std::int64_t kTileRows = 64;        // whole tiles of products and equal shares of two threads
constexpr std::int64_t kLeastImages = 4;      // every call of a convolution copies its weight, too
constexpr std::size_t kMostStepInputs = 8;

bool is_product(std::string_view op) { return op == "linear" || op == "linear_packed" || op == "matmul"; }
bool is_convolution(std::string_view op) { return op == "conv" || op == "conv_grad_data"; }
bool is_norm(std::string_view op) { return op == "layer_norm" || op == "rms_norm"; }

int norm_axis(const Shape& x, const Attrs& attrs) {
  const auto axis = static_cast<int>(attrs.integer("axis", -1));
  return axis < 0 ? axis + x.rank() : axis;
}

// One step before values are numbered. Values that only a step of an inner group knows have ids of no tensor.
struct Flat {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<TensorId> inputs, outputs;
  std::vector<RowInput> kinds;
};

class RowNodeMaker {
 public:
  RowNodeMaker(const Graph& graph, const RowGroup& group)
      : graph_(graph), group_(group), next_(static_cast<std::uint32_t>(graph.tensors.size())) {}

  std::optional<RowNode> run() {
    if (!find_axes()) return std::nullopt;
    for (const NodeId id : group_.nodes) {
      if (!flatten(graph_.at(id))) return std::nullopt;
    }
    if (!gather_inputs()) return std::nullopt;
    choose_overwritten();
    number();
    return finished();
  }

 private:
  // Products, convolutions and norms say what a row is; the others follow.
  bool find_axes() {
    for (const NodeId id : group_.nodes) {
      const Node& node = graph_.at(id);
      const Shape& x = graph_.at(node.inputs[0] ? node.inputs[0] : node.inputs.back()).type.shape;
      std::optional<int> axes;
      if (is_product(node.op->name)) axes = x.rank() - 1;
      if (is_convolution(node.op->name)) axes = 1;
      if (is_norm(node.op->name)) axes = norm_axis(x, node.attrs);
      if (is_row_group(*node.op)) axes = static_cast<int>(node.attrs.integer("axes"));
      if (!axes) continue;
      if (*axes < 1 || (axes_ != 0 && axes_ != *axes)) return false;
      if (axes_ == 0) {
        axes_ = *axes;
        const Shape& made = graph_.at(node.outputs[0]).type.shape;
        lead_ = Shape({made.begin(), made.begin() + *axes});
      }
    }
    return axes_ != 0;
  }

  bool goes_by_rows(TensorId id) const {
    const Shape& shape = graph_.at(id).type.shape;
    return shape.rank() >= axes_ && std::equal(lead_.begin(), lead_.end(), shape.begin());
  }

  bool flatten(const Node& node) {
    if (is_row_group(*node.op)) return inline_group(node);
    Flat step{.op = node.op, .attrs = node.attrs, .inputs = node.inputs};
    if (is_norm(node.op->name)) {
      step.attrs.set("axis", std::int64_t{axes_ - graph_.at(node.inputs[0]).type.shape.rank()});
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto kind = kind_of(node, i);
      if (!kind || (*kind == RowInput::kRows && node.inputs[i] && !goes_by_rows(node.inputs[i]))) return false;
      step.kinds.push_back(*kind);
    }
    std::size_t wanted = 0;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] && is_wanted(node.outputs[o])) wanted = o + 1;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (o < wanted && !goes_by_rows(node.outputs[o])) return false;
      if (o >= wanted && ((node.op->optional_outputs >> o) & 1U) == 0) return false;
      if (o < wanted) step.outputs.push_back(node.outputs[o]);
    }
    steps_.push_back(std::move(step));
    return wanted > 0 && node.inputs.size() <= kMostStepInputs;
  }

  bool is_wanted(TensorId id) const {
    if (std::find(group_.results.begin(), group_.results.end(), id) != group_.results.end()) return true;
    return std::any_of(group_.nodes.begin(), group_.nodes.end(), [&](NodeId node) {
      const auto& in = graph_.at(node).inputs;
      return std::find(in.begin(), in.end(), id) != in.end();
    });
  }

  std::optional<RowInput> kind_of(const Node& node, std::size_t i) const {
    const std::string_view op = node.op->name;
    if (is_product(op) || is_convolution(op) || is_norm(op)) return i == 0 ? RowInput::kRows : RowInput::kWhole;
    if (op == "batch_norm_apply") return i == 0 || i == 5 ? RowInput::kRows : RowInput::kWhole;
    if (!node.inputs[i]) return RowInput::kWhole;
    const TensorType& type = graph_.at(node.inputs[i]).type;
    if (type.dtype == DType::kU64) return RowInput::kKey;
    switch (row_kind(type.shape, graph_.at(node.outputs[0]).type.shape, axes_)) {
      case RowKind::kRows: return RowInput::kRows;
      case RowKind::kWhole: return RowInput::kBroadcast;
      default: return std::nullopt;
    }
  }

  bool inline_group(const Node& node) {
    const RowProgram inner = row_program_of(node.attrs);
    std::vector<TensorId> values = node.inputs;
    std::size_t made = inner.inputs.size();
    for (const RowStep& step : inner.steps) {
      Flat flat{.op = step.op, .attrs = step.attrs};
      for (const int i : step.inputs) {
        const auto at = static_cast<std::size_t>(i);
        flat.inputs.push_back(i < 0 ? TensorId{} : values[at]);
        flat.kinds.push_back(i < 0 ? RowInput::kWhole : at < inner.inputs.size() ? inner.inputs[at] : RowInput::kRows);
      }
      for (int o = 0; o < step.outputs; ++o, ++made) {
        const auto result = std::find(inner.results.begin(), inner.results.end(), static_cast<int>(made));
        values.push_back(result == inner.results.end()
                             ? TensorId{next_++}
                             : node.outputs[static_cast<std::size_t>(result - inner.results.begin())]);
        flat.outputs.push_back(values.back());
      }
      steps_.push_back(std::move(flat));
    }
    return true;
  }

  // What no step makes. The same tensor must take part in one way.
  bool gather_inputs() {
    std::set<TensorId> made;
    for (const Flat& step : steps_) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const TensorId id = step.inputs[i];
        if (!id) continue;
        if (made.contains(id)) {
          if (step.kinds[i] != RowInput::kRows) return false;
          continue;
        }
        const auto [it, is_new] = kinds_.emplace(id, step.kinds[i]);
        if (!is_new && it->second != step.kinds[i]) return false;
        if (is_new) inputs_.push_back(id);
      }
      made.insert(step.outputs.begin(), step.outputs.end());
    }
    return true;
  }

  // The first result may lie where an input of its size lies that is read for the last time when that result is made,
  // by a kernel that may write over it: row by row of the input its rows are not needed any more.
  void choose_overwritten() {
    results_ = group_.results;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      for (const InOut& pair : steps_[s].op->in_place) {
        const Flat& step = steps_[s];
        if (pair.input >= step.inputs.size() || pair.output >= step.outputs.size() || !step.inputs[pair.input])
          continue;
        const TensorId in = step.inputs[pair.input];
        const auto result = std::find(results_.begin(), results_.end(), step.outputs[pair.output]);
        if (result == results_.end() || !kinds_.contains(in) || kinds_.at(in) != RowInput::kRows) continue;
        if (graph_.at(in).type.bytes() != graph_.at(*result).type.bytes() || !is_last_read(in, s, pair.input)) continue;
        std::rotate(results_.begin(), result, result + 1);
        const auto at = std::find(inputs_.begin(), inputs_.end(), in);
        std::rotate(inputs_.begin(), at, at + 1);
        return;
      }
    }
    inputs_.insert(inputs_.begin(), TensorId{});
  }

  bool is_last_read(TensorId id, std::size_t step, std::size_t input) const {
    const auto reads = [&](const Flat& s) { return std::count(s.inputs.begin(), s.inputs.end(), id); };
    for (std::size_t s = step + 1; s < steps_.size(); ++s) {
      if (reads(steps_[s]) != 0) return false;
    }
    return reads(steps_[step]) == 1 && steps_[step].inputs[input] == id;
  }

  void number() {
    std::map<TensorId, int> number;
    for (const TensorId id : inputs_) {
      if (id) number[id] = static_cast<int>(program_.inputs.size());
      program_.inputs.push_back(id ? kinds_.at(id) : RowInput::kWhole);
    }
    auto next = static_cast<int>(program_.inputs.size());
    for (const Flat& flat : steps_) {
      RowStep step{.op = flat.op, .attrs = flat.attrs, .outputs = static_cast<int>(flat.outputs.size())};
      for (const TensorId id : flat.inputs) step.inputs.push_back(id ? number.at(id) : -1);
      for (const TensorId id : flat.outputs) number[id] = next++;
      program_.steps.push_back(std::move(step));
    }
    for (const TensorId id : results_) program_.results.push_back(number.at(id));
    program_.axes = axes_;
  }

  std::optional<RowNode> finished() {
    ValueTypes types;
    for (const TensorId id : inputs_) types.push_back(id ? std::optional(graph_.at(id).type) : std::nullopt);
    const ValueTypes values = value_types(program_, types);
    const std::int64_t rows = lead_.count();
    if (!choose_chunk(values, rows)) return std::nullopt;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const bool is_own = !is_product(steps_[s].op->name) && !is_convolution(steps_[s].op->name);
      if (!is_own && !is_row_invariant(program_, values, s)) return std::nullopt;
    }
    const Node& last = graph_.at(group_.nodes.back());
    return RowNode{.node = {.op = &op_named(group_.op),
                            .name = last.name,
                            .layer = last.layer,
                            .inputs = inputs_,
                            .attrs = to_attrs(program_),
                            .phase = last.phase},
                   .stands_for = results_};
  }

  // As equal as can be in whole tiles. A group that makes one chunk has nothing to gain.
  bool choose_chunk(const ValueTypes& values, std::int64_t rows) {
    std::int64_t widest = 1, positions = 1;
    for (std::size_t i = program_.inputs.size(); i < values.size(); ++i) {
      const TensorType& type = *values[i];
      if (type.elements() == 0) return false;  // no rows, or rows of nothing
      if (type.dtype == DType::kBits && type.elements() / rows % 8 != 0) return false;
      widest = std::max(widest, type.bytes() / rows);
      if (type.shape.rank() > axes_) positions = std::max(positions, type.elements() / rows / type.shape.size(-1));
    }
    const bool has_images =
        std::any_of(steps_.begin(), steps_.end(), [](const Flat& step) { return is_convolution(step.op->name); });
    const std::int64_t least = std::max((kLeastPositions + positions - 1) / positions, has_images ? kLeastImages : 1);
    const std::int64_t most = std::max(kChunkBytes / widest, least);
    const std::int64_t chunks = (rows + most - 1) / most;
    program_.chunk = (rows + chunks - 1) / chunks;
    if (!has_images && program_.chunk > kTileRows) {
      program_.chunk = std::min((program_.chunk + kTileRows - 1) / kTileRows, most / kTileRows) * kTileRows;
    }
    return program_.chunk < rows;
  }

  const Graph& graph_;
  const RowGroup& group_;
  int axes_ = 0;
  Shape lead_;
  std::uint32_t next_;
  std::vector<Flat> steps_;
  std::vector<TensorId> inputs_, results_;
  std::map<TensorId, RowInput> kinds_;
  RowProgram program_;
};

}  // namespace

std::optional<RowNode> row_node(const Graph& graph, const RowGroup& group) { return RowNodeMaker(graph, group).run(); }

}  // namespace neap
