#include "onnx/emit/emitter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/op.h"
#include "graph/outside.h"
#include "neap/error.h"
#include "ops/shape_util/axes.h"

namespace neap::onnx {
namespace {

Perm whole_perm(const Perm& perm, int rank) {
  if (!perm.empty()) return perm;
  Perm out(static_cast<std::size_t>(rank));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Perm shortest(const Perm& perm) { return is_identity(perm) ? Perm{} : perm; }

void set_attribute(pb::AttributeProto& a, const std::string& name, const AttrValue& value) {
  a.set_name(name);
  if (name == "activations") {  // the only list of texts
    a.set_type(pb::AttributeProto::STRINGS);
    a.add_strings(std::get<std::string>(value));
  } else if (const auto* i = std::get_if<std::int64_t>(&value)) {
    a.set_type(pb::AttributeProto::INT);
    a.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&value)) {
    a.set_type(pb::AttributeProto::FLOAT);
    a.set_f(static_cast<float>(*f));
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    a.set_type(pb::AttributeProto::STRING);
    a.set_s(*s);
  } else if (const auto* list = std::get_if<Ints>(&value)) {
    a.set_type(pb::AttributeProto::INTS);
    for (const std::int64_t i2 : *list) a.add_ints(i2);
  } else {
    throw InternalError(fmt::format("attribute {} has no form in ONNX", name));
  }
}

}  // namespace

Perm channels_first(int rank) { return inverse(channels_last(rank)); }

std::int64_t axis_there(std::int64_t axis, const Perm& axes, int rank) {
  const int here = ops::axis_of(axis, rank);
  if (axes.empty()) return here;
  return std::find(axes.begin(), axes.end(), here) - axes.begin();
}

void set_type(pb::ValueInfoProto& info, const TensorType& type) {
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type_of(type.dtype));
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : type.shape) {
    auto* dim = shape->add_dim();
    if (d.is_number()) {
      dim->set_dim_value(d.number());
    } else if (!ops::is_unknown(d)) {
      dim->set_dim_param(d.text());
    }
  }
}

Emitter::Emitter(const Graph& graph, std::vector<const Node*> nodes, Value result, pb::GraphProto& out)
    : graph_(graph), nodes_(std::move(nodes)), out_(out) {
  ++readers_[result.index];
  for (const Node* node : nodes_) {
    for (const Value v : node->inputs) {
      if (v) ++readers_[v.index];
    }
  }
}

const Node* Emitter::producer(Value v) const {
  const NodeId id = graph_.at(v).producer;
  return id ? &graph_.at(id) : nullptr;
}

int Emitter::readers(Value v) const {
  const auto at = readers_.find(v.index);
  return at == readers_.end() ? 0 : at->second;
}

std::string Emitter::unique(const std::string& name) {
  std::string out = name;
  for (int i = 1; !names_.insert(out).second; ++i) out = fmt::format("{}_{}", name, i);
  return out;
}

MadePtr Emitter::made(Value v) {
  if (const auto at = made_.find(v.index); at != made_.end()) return at->second;
  if (pieces_.contains(v.index)) return cut_out(v);
  const Tensor& t = graph_.at(v);
  if (is_state(t.role)) return state(v);
  throw UserError(fmt::format("it reads '{}', which has no form in ONNX", t.name));
}

const Piece* Emitter::piece(Value v) const {
  const auto at = pieces_.find(v.index);
  return at == pieces_.end() ? nullptr : &at->second;
}

MadePtr Emitter::cut_out(Value v) {
  const Piece& p = pieces_.at(v.index);
  const std::int64_t axis = axis_there(0, p.whole->axes, p.whole->shape.rank());
  const std::string label = std::exchange(label_, p.label);
  const std::string name = add("Slice", {p.whole->name, ints({p.start}), ints({p.end}), ints({axis})});
  label_ = label;
  out(v, name, p.whole->axes);
  return made_.at(v.index);
}

pb::TensorProto& Emitter::initializer(const std::string& name, const TensorType& type) {
  if (!names_.insert(name).second) throw UserError(fmt::format("the name '{}' is taken", printable(name)));
  pb::TensorProto& t = *out_.add_initializer();
  t.set_name(name);
  t.set_data_type(onnx_type_of(type.dtype));
  for (const std::int64_t size : type.shape.sizes()) t.add_dims(size);
  return t;
}

MadePtr Emitter::state(Value v) {
  const Tensor& t = graph_.at(v);
  if (t.role == Role::kConstant) {
    constant(t.name, outside_type(t), t.data->bytes);
  } else {
    initializer(t.name, outside_type(t));
    sources_[t.name] = {.weight = t.name};
  }
  out(v, t.name, t.outside_axes);
  return made_.at(v.index);
}

std::string Emitter::constant(const std::string& name, const TensorType& type, std::span<const std::byte> bytes) {
  initializer(name, type).set_raw_data(bytes.data(), bytes.size());
  return name;
}

std::string Emitter::rearranged(Value weight, const std::string& suffix, const Shape& shape,
                                std::vector<std::size_t> blocks) {
  const Tensor& t = graph_.at(weight);
  if (t.role != Role::kParameter && t.role != Role::kBuffer) {
    throw UserError(fmt::format("'{}' is computed, and ONNX orders it otherwise", t.name));
  }
  std::string name = t.name + suffix;
  const auto [at, is_new] = sources_.try_emplace(name, Source{t.name, std::move(blocks)});
  if (is_new) initializer(name, {t.type.dtype, shape});
  return name;
}

std::string Emitter::moved(const Made& m, const Perm& perm) {
  const int rank = m.shape.rank();
  const Perm want = whole_perm(perm, rank);
  const Perm have = whole_perm(m.axes, rank);
  if (want == have) return m.name;
  const auto key = std::make_pair(m.name, want);
  if (const auto at = moved_.find(key); at != moved_.end()) return at->second;
  const Perm turn = compose(inverse(have), want);
  const std::string name = add("Transpose", {m.name}, {{"perm", Ints(turn.begin(), turn.end())}});
  return moved_[key] = name;
}

// The order of the first operand that has all axes, where the others have all of them too or are single numbers; else
// the order here.
Names Emitter::together(const Values& values, Perm& axes) {
  int most = 0;
  for (const Value v : values) most = std::max(most, rank(v));
  axes = {};
  bool can_stay = true;
  bool is_first = true;
  for (const Value v : values) {
    if (rank(v) == most && is_first) {
      axes = made(v)->axes;
      is_first = false;
    }
    can_stay = can_stay && (rank(v) == most || shape(v).elements() == Dim(1));
  }
  if (!can_stay) axes = {};
  Names out;
  for (const Value v : values) out.push_back(rank(v) == most ? moved(v, axes) : in(v));
  return out;
}

MadePtr Emitter::joined(const std::vector<MadePtr>& wholes, int axis) {
  const Perm axes = wholes[0]->axes;
  Shape all = wholes[0]->shape;
  Names parts;
  std::int64_t size = 0;
  for (const MadePtr& m : wholes) {
    parts.push_back(moved(*m, axes));
    size += m->shape.size(axis);
  }
  MadePtr& out = joined_[{parts, axis}];
  if (!out) {
    all[axis] = size;
    const std::string name = add("Concat", parts, {{"axis", axis_there(axis, axes, all.rank())}});
    out = std::make_shared<const Made>(Made{name, axes, all});
  }
  return out;
}

void Emitter::input(Value v) {
  const Tensor& t = graph_.at(v);
  if (!names_.insert(t.name).second) throw UserError(fmt::format("two inputs have the name '{}'", printable(t.name)));
  pb::ValueInfoProto& info = *out_.add_input();
  info.set_name(t.name);
  set_type(info, t.type);
  if (t.type.shape.rank() == 4) info.set_doc_string("channels last: batch, height, width, channels");
  out(v, t.name);
}

void Emitter::out(Value v, std::string name, const Perm& axes) {
  made_[v.index] = std::make_shared<const Made>(Made{std::move(name), shortest(axes), shape(v)});
}

std::string Emitter::add(const std::string& op, const Names& inputs, const Attrs& attrs) {
  return add(op, inputs, attrs, {true})[0];
}

Names Emitter::add(const std::string& op, const Names& inputs, const Attrs& attrs, const std::vector<bool>& wanted) {
  pb::NodeProto& node = *out_.add_node();
  node.set_op_type(op);
  node.set_name(unique(fmt::format("/{}/{}", label_, op)));
  for (const std::string& name : inputs) node.add_input(name);
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) node.mutable_input()->RemoveLast();
  Names out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    out.push_back(wanted[i] ? unique(fmt::format("{}_output_{}", node.name(), i)) : std::string());
    node.add_output(out.back());
  }
  for (const auto& [name, value] : attrs) set_attribute(*node.add_attribute(), name, value);
  return out;
}

std::string Emitter::scalar(float value) {
  std::string name = fmt::format("/number/{}", value);
  if (names_.contains(name)) return name;
  return constant(name, {DType::kF32, {}}, std::as_bytes(std::span(&value, 1)));
}

std::string Emitter::ints(const Ints& values) {
  std::string name = fmt::format("/numbers/{}", fmt::join(values, "_"));
  if (names_.contains(name)) return name;
  return constant(name, {DType::kI64, {static_cast<std::int64_t>(values.size())}}, std::as_bytes(std::span(values)));
}

void Emitter::rename(const std::string& from, const std::string& to) {
  if (!names_.insert(to).second) throw UserError(fmt::format("the name '{}' is taken", printable(to)));
  for (pb::NodeProto& node : *out_.mutable_node()) {
    for (std::string& name : *node.mutable_input()) name = name == from ? to : name;
    for (std::string& name : *node.mutable_output()) name = name == from ? to : name;
  }
}

}  // namespace neap::onnx
