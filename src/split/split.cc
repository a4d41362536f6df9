#include "split/split.h"

#include <fmt/format.h>

#include "graph/op.h"
#include "neap/error.h"
#include "split/blocks.h"

namespace neap {
namespace {

class Splitter {
 public:
  Splitter(const Graph& forward, std::int64_t parts)
      : from_(forward), parts_(parts), copies_(static_cast<std::size_t>(parts)), is_split_(forward.tensors.size()) {
    for (Values& copy : copies_) copy.resize(forward.tensors.size());
  }

  Graph run() {
    for (std::uint32_t i = 0; i < from_.tensors.size(); ++i) {
      if (!from_.tensors[i].producer) add_leaf({i});
    }
    std::vector<std::size_t> ends = find_cuts(from_, parts_);
    ends.push_back(from_.nodes.size());
    std::size_t first = 0;
    for (const std::size_t end : ends) {
      add_block(first, end);
      first = end;
    }
    for (const auto& [label, id] : from_.outputs) add_output(label, id);
    return std::move(out_);
  }

 private:
  static std::string name_of(const std::string& name, std::int64_t part) {
    return fmt::format("{}.part{}", name, part);
  }
  Value& copy(std::int64_t part, TensorId id) { return copies_[static_cast<std::size_t>(part)][id.index]; }

  // Data are cut into rows; what recurrent layers carry from step to step belongs to a part; all else is shared.
  void add_leaf(TensorId id) {
    Tensor leaf = from_.at(id);
    const bool is_input = leaf.role == Role::kInput;
    if (is_input && !leaf.name.starts_with("step.")) return add_data(id);
    if (is_input && leaf.name.starts_with("step.carried.")) {
      is_split_[id.index] = true;
      for (std::int64_t p = 0; p < parts_; ++p) {
        Tensor own = leaf;
        own.name = name_of(leaf.name, p);
        copy(p, id) = out_.add(std::move(own));
      }
      return;
    }
    const TensorId shared = out_.add(std::move(leaf));
    for (std::int64_t p = 0; p < parts_; ++p) copy(p, id) = shared;
  }

  void add_data(TensorId id) {
    Tensor whole = from_.at(id);
    const std::int64_t rows = whole.type.shape.size(0);
    std::vector<Dim> dims = whole.type.shape.dims();
    dims[0] = Dim(rows * parts_);
    whole.type.shape = Shape(std::move(dims));
    const std::string name = whole.name;
    const TensorId all = out_.add(std::move(whole));
    is_split_[id.index] = true;
    for (std::int64_t p = 0; p < parts_; ++p) {
      const NodeId rows_of_part =
          out_.append({.op = &op_named("slice"),
                       .name = name_of(name, p),
                       .layer = name,
                       .inputs = {all},
                       .attrs = {{"axes", Ints{0}}, {"starts", Ints{p * rows}}, {"ends", Ints{(p + 1) * rows}}}});
      copy(p, id) = out_.at(rows_of_part).outputs[0];
    }
  }

  bool reads_parts(const Node& node) const {
    for (const TensorId id : node.inputs) {
      if (id && is_split_[id.index]) return true;
    }
    return node.op->random;
  }

  // What all parts share comes first in its block: the parts read it.
  void add_block(std::size_t first, std::size_t end) {
    for (std::size_t n = first; n < end; ++n) {
      const Node& node = from_.nodes[n];
      const bool is_split = reads_parts(node);
      if (!is_split) add_shared(node);
      for (const TensorId id : node.outputs) is_split_[id.index] = is_split && !sees_whole_batch(node);
    }
    Values moments;
    for (std::int64_t p = 0; p < parts_; ++p) {
      for (std::size_t n = first; n < end; ++n) {
        const Node& node = from_.nodes[n];
        if (!reads_parts(node)) continue;
        if (sees_whole_batch(node)) {
          add_moments(node, p, moments);
        } else {
          add_part(node, p);
        }
      }
    }
    if (!moments.empty()) merge_moments(from_.nodes[end - 1], std::move(moments));
  }

  void add_moments(const Node& stats, std::int64_t part, Values& moments) {
    const NodeId at = out_.append({.op = &op_named("moments"),
                                   .name = name_of(stats.name, part),
                                   .layer = stats.layer,
                                   .inputs = {copy(part, stats.inputs[0])}});
    for (const TensorId id : out_.at(at).outputs) moments.push_back(id);
  }

  void merge_moments(const Node& stats, Values moments) {
    const Shape& x = from_.at(stats.inputs[0]).type.shape;
    Node merge{.op = &op_named("merge_moments"),
               .name = stats.name,
               .layer = stats.layer,
               .inputs = std::move(moments),
               .attrs = stats.attrs};
    merge.attrs.set("rows", x.count() / x.size(-1));
    std::vector<std::string> names;
    for (const TensorId id : stats.outputs) names.push_back(from_.at(id).name);
    share(stats, out_.append(std::move(merge), std::move(names)));
  }

  // The elements a channel that running statistics count: those of all parts.
  Attrs counted(const Node& node) const {
    Attrs out = node.attrs;
    for (const auto& [key, value] : node.attrs) {
      if (key != "count" && key != "rows") continue;
      const Shape* shape = std::get_if<Shape>(&value);
      const std::int64_t count = shape != nullptr ? shape->count() : std::get<std::int64_t>(value);
      out.set(key, Shape{count * parts_});
    }
    return out;
  }

  Node renamed(const Node& node, std::int64_t part) {
    Node out = node;
    for (TensorId& id : out.inputs) {
      if (id) id = copy(part, id);
    }
    return out;
  }

  void add_shared(const Node& node) {
    std::vector<std::string> names;
    for (const TensorId id : node.outputs) names.push_back(from_.at(id).name);
    Node mine = renamed(node, 0);
    if (node.op->name.starts_with("running_")) mine.attrs = counted(node);
    share(node, out_.append(std::move(mine), std::move(names)));
  }

  // All parts read what `at` has made in the place of `node`.
  void share(const Node& node, NodeId at) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      for (std::int64_t p = 0; p < parts_; ++p) copy(p, node.outputs[i]) = out_.at(at).outputs[i];
    }
  }

  void add_part(const Node& node, std::int64_t part) {
    if (node.op->side_effects()) {
      throw UserError(
          fmt::format("--split: {} '{}' would change state once for each part of the batch", node.op->name, node.name));
    }
    Node mine = renamed(node, part);
    mine.name = name_of(node.name, part);
    if (node.op->random) mine.attrs.set("first", part * from_.at(node.outputs[0]).type.elements());
    std::vector<std::string> names;
    for (const TensorId id : node.outputs) names.push_back(name_of(from_.at(id).name, part));
    const NodeId at = out_.append(std::move(mine), std::move(names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) copy(part, node.outputs[i]) = out_.at(at).outputs[i];
  }

  void add_output(const std::string& label, TensorId id) {
    if (!is_split_[id.index]) {
      out_.outputs.emplace_back(label, copy(0, id));
    } else if (label == "loss") {
      out_.outputs.emplace_back(label, mean_loss(id));
    } else {
      for (std::int64_t p = 0; p < parts_; ++p) out_.outputs.emplace_back(name_of(label, p), copy(p, id));
    }
  }

  TensorId mean_loss(TensorId id) {
    Builder g(std::move(out_));
    Value sum = copy(0, id);
    for (std::int64_t p = 1; p < parts_; ++p) sum = g("add", {sum, copy(p, id)}, {}, "loss.sum");
    const Value loss = g("mul", {sum, g.scalar(1.0 / static_cast<double>(parts_))}, {}, from_.at(id).name);
    out_ = g.take();
    return loss;
  }

  const Graph& from_;
  std::int64_t parts_;
  Graph out_;
  std::vector<Values> copies_;  // per part: what became of each tensor
  std::vector<bool> is_split_;  // per tensor: each part has its own
};

}  // namespace

Graph split_batch(const Graph& forward, std::int64_t parts) {
  require(parts > 0, "a batch has parts");
  if (parts == 1) return forward;
  return Splitter(forward, parts).run();
}

}  // namespace neap
