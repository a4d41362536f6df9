#include "onnx/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/graph.h"
#include "neap/error.h"
#include "onnx/importer.h"
#include "onnx/limits.h"

namespace neap::onnx {

Context::Context(const pb::NodeProto& n, int version, std::vector<Operand> operands, Target& target, Importer* importer)
    : g(target.g),
      node(n),
      opset(version),
      operands_(std::move(operands)),
      outputs_(static_cast<std::size_t>(n.output_size())),
      target_(target),
      importer_(importer) {}

std::size_t Context::inputs() const {
  asked_ = operands_.size();
  return operands_.size();
}

bool Context::has(std::size_t i) const {
  asked_ = std::max(asked_, i + 1);
  return i < operands_.size() && static_cast<bool>(operands_[i]);
}

void Context::check_inputs() const {
  for (std::size_t i = asked_; i < operands_.size(); ++i) {
    if (operands_[i]) throw UserError(fmt::format("it takes {} inputs, and {} are given", asked_, operands_.size()));
  }
}

Values Context::add_all(std::string_view op, Values inputs, Attrs attrs) {
  importer_->count_made();
  Values out = g.add(op, std::move(inputs), std::move(attrs));
  for (const Value v : out) check_size(g.type(v));
  return out;
}

const Operand& Context::operand(std::size_t i) const {
  if (!has(i)) throw UserError(fmt::format("input {} is not given", i));
  return operands_[i];
}

void Context::need_rank(std::size_t i, int least, int most) const {
  if (rank(i) >= least && rank(i) <= most) return;
  throw UserError(fmt::format("input {} is {}, which has the wrong rank", i, shape(i).text()));
}

Value Context::in(std::size_t i) { return has(i) ? moved(i, {}) : Value{}; }

Value Context::moved(std::size_t i, const Perm& perm) { return moved(operand(i), perm); }

Value Context::constant_of(const Constant& constant) {
  return g.constant("constant", constant.type, {constant.data->bytes.begin(), constant.data->bytes.end()});
}

Value Context::moved(const Operand& x, const Perm& perm) {
  if (x.weight) return make_weight(*x.weight, compose(x.axes, perm));
  if (x.value) return transpose(x.value, compose(x.axes, perm));
  require(x.constant != nullptr, "an operand is something");
  auto& known = target_.constants[x.constant.get()];
  if (!known) {
    known = constant_of(*x.constant);
    target_.kept.push_back(x.constant);
  }
  return transpose(known, perm);
}

Value Context::as_it_is(std::size_t i, Perm& axes) {
  const Operand& x = operand(i);
  axes = x.value ? x.axes : Perm{};
  return x.value ? x.value : moved(i, {});
}

Values Context::together(const std::vector<std::size_t>& which, Perm& axes) {
  int rank = 0;
  for (const std::size_t i : which) rank = std::max(rank, this->rank(i));
  axes.clear();
  std::int64_t largest = -1;
  for (const std::size_t i : which) {
    const Operand& x = operand(i);
    if (!x.value || x.type.shape.rank() != rank || x.type.elements() <= largest) continue;
    largest = x.type.elements();
    axes = x.axes;
  }
  Values out;
  for (const std::size_t i : which) {
    const int missing = rank - this->rank(i);
    if (axes.empty() || missing == 0 || this->rank(i) == 0) {
      out.push_back(moved(i, this->rank(i) == 0 ? Perm{} : inverse(axes)));
      continue;
    }
    Shape shape(std::vector<Dim>(static_cast<std::size_t>(missing), Dim(1)));
    for (const Dim& d : this->shape(i)) shape.push_back(d);
    out.push_back(transpose(reshape(moved(i, {}), shape), inverse(axes)));
  }
  return out;
}

Value Context::make_weight(Weight& weight, const Perm& perm) {
  if (!weight.value) {
    if (g.graph().has_name(weight.name)) {
      throw UserError(fmt::format("the name '{}' is used twice", printable(weight.name)));
    }
    weight.layout = is_identity(perm) ? Perm{} : perm;
    const Given given{.values = weight.first.data, .axes = inverse(weight.layout)};
    const Shape shape = permuted(weight.first.type.shape, weight.layout);
    weight.value = weight.trained ? g.parameter(weight.name, shape, given) : g.buffer(weight.name, shape, given);
  }
  if (perm.empty() && weight.layout.empty()) return weight.value;
  const auto rank = static_cast<std::size_t>(weight.first.type.shape.rank());
  Perm plain(rank);
  for (std::size_t i = 0; i < rank; ++i) plain[i] = static_cast<int>(i);
  return transpose(weight.value, compose(weight.layout.empty() ? plain : inverse(weight.layout), perm));
}

Value Context::transpose(Value x, const Perm& perm) {
  if (is_identity(perm)) return x;
  const auto [at, is_new] = target_.moved.try_emplace({x.index, perm});
  if (!is_new) return at->second;
  const Shape& shape = g.shape(x);
  int last = -1;
  bool keeps_order = true;  // of the axes that are longer than 1
  for (const int axis : perm) {
    if (shape[axis] == Dim(1)) continue;
    keeps_order = keeps_order && axis > last;
    last = axis;
  }
  at->second = keeps_order ? reshape(x, permuted(shape, perm))
                           : add("transpose", {x}, {{"perm", Ints(perm.begin(), perm.end())}});
  return at->second;
}

Value Context::reshape(Value x, const Shape& shape) {
  return g.shape(x) == shape ? x : add("reshape", {x}, {{"shape", shape}});
}

const Constant& Context::constant(std::size_t i) const {
  const Operand& x = operand(i);
  if (x.constant == nullptr) throw NotConstant{node.input(static_cast<int>(i))};
  return *x.constant;
}

Ints Context::ints(std::size_t i) const { return ints_of(constant(i)); }
std::vector<double> Context::reals(std::size_t i) const { return reals_of(constant(i)); }

std::int64_t Context::integer(std::size_t i) const {
  const Ints values = ints(i);
  if (values.size() != 1) throw UserError(fmt::format("input {} must have one element, not {}", i, values.size()));
  return values[0];
}

double Context::real(std::size_t i) const {
  const std::vector<double> values = reals(i);
  if (values.size() != 1) throw UserError(fmt::format("input {} must have one element, not {}", i, values.size()));
  return values[0];
}

Ints Context::ints(std::size_t i, std::string_view attribute, const Ints& fallback) const {
  return has(i) ? ints(i) : ints(attribute, fallback);
}

const pb::AttributeProto* Context::find(std::string_view name) const {
  for (const pb::AttributeProto& a : node.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

namespace {

constexpr std::size_t kMaxText = 1000;  // of a name or an equation

[[noreturn]] void wrong_type(std::string_view name, std::string_view want) {
  throw UserError(fmt::format("attribute '{}' must be {}", name, want));
}

}  // namespace

std::int64_t Context::integer(std::string_view name, std::int64_t fallback) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return fallback;
  if (a->type() != pb::AttributeProto::INT) wrong_type(name, "an integer");
  return a->i();
}

std::int64_t Context::integer(std::string_view name) const {
  if (!has_attr(name)) throw UserError(fmt::format("attribute '{}' is missing", name));
  return integer(name, 0);
}

double Context::real(std::string_view name, double fallback) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return fallback;
  if (a->type() != pb::AttributeProto::FLOAT) wrong_type(name, "a float");
  return static_cast<double>(a->f());
}

std::string Context::text(std::string_view name, std::string_view fallback) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return std::string(fallback);
  if (a->type() != pb::AttributeProto::STRING) wrong_type(name, "a string");
  if (a->s().size() > kMaxText) throw UserError(fmt::format("attribute '{}' is {} bytes long", name, a->s().size()));
  return a->s();
}

Ints Context::ints(std::string_view name, const Ints& fallback) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return fallback;
  if (a->type() != pb::AttributeProto::INTS) wrong_type(name, "a list of integers");
  return {a->ints().begin(), a->ints().end()};
}

std::vector<double> Context::reals(std::string_view name) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return {};
  if (a->type() != pb::AttributeProto::FLOATS) wrong_type(name, "a list of floats");
  return {a->floats().begin(), a->floats().end()};
}

std::vector<std::string> Context::texts(std::string_view name) const {
  const pb::AttributeProto* a = find(name);
  if (a == nullptr) return {};
  if (a->type() != pb::AttributeProto::STRINGS) wrong_type(name, "a list of strings");
  return {a->strings().begin(), a->strings().end()};
}

DType Context::dtype_attr(std::string_view name, DType fallback) const {
  if (!has_attr(name)) return fallback;
  const int number = static_cast<int>(integer(name, 0));
  const auto type = dtype_of(number, widens());
  if (!type) throw UserError(fmt::format("{} is not supported", onnx_type_name(number)));
  return *type;
}

bool Context::widens() const { return importer_->options().widen; }

bool Context::batch_norm_frozen(bool file_trains) const {
  if (g.mode() == Mode::kEvaluation) return true;
  return importer_->options().frozen_batch_norm.value_or(!file_trains);
}

bool Context::wants(std::size_t output) const {
  return output < outputs_.size() && !node.output(static_cast<int>(output)).empty();
}

void Context::out(std::size_t i, Value value, Perm axes) {
  if (!wants(i)) return;
  if (is_identity(axes)) axes.clear();
  const TensorType type{g.type(value).dtype, permuted(g.shape(value), axes)};
  outputs_[i] = {.type = type, .value = value, .axes = std::move(axes)};
}

void Context::out(std::size_t i, Constant constant) {
  if (!wants(i)) return;
  outputs_[i].type = constant.type;
  outputs_[i].constant = std::make_shared<const Constant>(std::move(constant));
}

void Context::out(std::size_t i, Operand operand) {
  if (wants(i)) outputs_[i] = std::move(operand);
}

Value Context::cast(Value x, DType to) {
  return g.type(x).dtype == to ? x : add("cast", {x}, {{"to", std::string(name(to))}});
}

Value Context::scalar(double value, DType type) { return cast(g.scalar(value), type); }

std::vector<Operand> Context::run_subgraph(std::string_view attribute, std::vector<Operand> operands) {
  const pb::AttributeProto* a = find(attribute);
  if (a == nullptr || a->type() != pb::AttributeProto::GRAPH) wrong_type(attribute, "a graph");
  return importer_->run_subgraph(node, a->g(), std::move(operands), target_);
}

int plain_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw UserError(fmt::format("there is no axis {} in rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Ints plain_axes(Ints axes, int rank) {
  for (std::int64_t& axis : axes) axis = plain_axis(axis, rank);
  Ints sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) throw UserError("an axis is named twice");
  return axes;
}

}  // namespace neap::onnx
