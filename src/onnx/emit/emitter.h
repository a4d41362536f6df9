// An ONNX graph under construction, while Neap's graph is written out node by node.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "onnx/operand.h"

namespace neap::onnx {

// A tensor of Neap's graph as the ONNX graph has it. Transposes are carried along this way, so that images stay
// channels-first from one convolution to the next.
struct Made {
  std::string name;
  Perm axes;    // axis j there is axis axes[j] here; empty: the same order
  Shape shape;  // here
};
using MadePtr = std::shared_ptr<const Made>;

// Elements [start, end) of the first axis of a whole. Becomes a Slice only when something reads it by itself, so that
// a sequence that is cut into chunks and joined again stays in one piece.
struct Piece {
  MadePtr whole;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::string label = {};  // names the Slice
};

// What an initializer is filled with when the file is written: state by its name in Neap's graph, in the layout that it
// has outside. `blocks`: its first axis in as many equal blocks, put into this order; empty: as it is.
struct Source {
  std::string weight;
  std::vector<std::size_t> blocks = {};
};

using Names = std::vector<std::string>;

class Emitter {
 public:
  // `nodes`: those that are written, in program order; `result`: what for.
  Emitter(const Graph& graph, std::vector<const Node*> nodes, Value result, pb::GraphProto& out);

  const Graph& graph() const { return graph_; }
  const std::vector<const Node*>& nodes() const { return nodes_; }
  const Shape& shape(Value v) const { return graph_.at(v).type.shape; }
  int rank(Value v) const { return shape(v).rank(); }
  const Node* producer(Value v) const;
  // How often the nodes that are written read it; the result is read once more.
  int readers(Value v) const;

  // From here on nodes are named after this one.
  void begin(const std::string& label) { label_ = label; }

  MadePtr made(Value v);  // UserError when it is nothing that ONNX has
  const Piece* piece(Value v) const;
  bool is_made(Value v) const { return made_.contains(v.index) || pieces_.contains(v.index); }
  // In the order of axes that it has here.
  std::string in(Value v) { return moved(v, {}); }
  // Axis j of the result is axis perm[j] here.
  std::string moved(Value v, const Perm& perm) { return moved(*made(v), perm); }
  std::string moved(const Made& m, const Perm& perm);
  // Several under numpy's broadcasting, all in one order of axes.
  Names together(const Values& values, Perm& axes);

  void input(Value v);
  void out(Value v, std::string name, const Perm& axes = {});
  void out(Value v, MadePtr made) { made_[v.index] = std::move(made); }
  void out(Value v, Piece piece) { pieces_[v.index] = std::move(piece); }

  // Appends a node and gives the name of its output.
  std::string add(const std::string& op, const Names& inputs, const Attrs& attrs = {});
  // The same with several outputs; those not wanted have no name.
  Names add(const std::string& op, const Names& inputs, const Attrs& attrs, const std::vector<bool>& wanted);

  bool has_name(const std::string& name) const { return names_.contains(name); }
  std::string scalar(float value);
  std::string ints(const Ints& values);  // i64 of rank 1
  std::string constant(const std::string& name, const TensorType& type, std::span<const std::byte> bytes);
  // State in another order of blocks and of another shape, under its own name with `suffix`.
  std::string rearranged(Value weight, const std::string& suffix, const Shape& shape, std::vector<std::size_t> blocks);

  // The wholes of several pieces joined along an axis, once however often it is asked for.
  MadePtr joined(const std::vector<MadePtr>& wholes, int axis);

  // Gives a tensor this name for good. UserError when that is taken.
  void rename(const std::string& from, const std::string& to);
  const std::map<std::string, Source>& sources() const { return sources_; }

 private:
  std::string unique(const std::string& name);
  MadePtr state(Value v);
  MadePtr cut_out(Value v);
  pb::TensorProto& initializer(const std::string& name, const TensorType& type);

  const Graph& graph_;
  const std::vector<const Node*> nodes_;
  pb::GraphProto& out_;
  std::string label_;
  std::map<std::uint32_t, int> readers_;
  std::map<std::uint32_t, MadePtr> made_;
  std::map<std::uint32_t, Piece> pieces_;
  std::map<std::pair<std::string, Perm>, std::string> moved_;
  std::map<std::pair<Names, int>, MadePtr> joined_;
  std::map<std::string, Source> sources_;
  std::set<std::string> names_;
};

// [N, spatial..., C] to [N, C, spatial...], as a Perm.
Perm channels_first(int rank);
// Where axis `axis` here (negative: from the end) lies in a tensor with these axes.
std::int64_t axis_there(std::int64_t axis, const Perm& axes, int rank);

void set_type(pb::ValueInfoProto& info, const TensorType& type);

using EmitRule = void (*)(Emitter& e, const Node& node);
struct EmitEntry {
  std::string_view op;
  EmitRule rule;
};
// Null when ONNX has nothing for this op.
EmitRule find_emit_rule(std::string_view op);

std::span<const EmitEntry> emit_elementwise();
std::span<const EmitEntry> emit_image();
std::span<const EmitEntry> emit_norm();
std::span<const EmitEntry> emit_product();
std::span<const EmitEntry> emit_recurrent();
std::span<const EmitEntry> emit_shape();

}  // namespace neap::onnx
