#include "neap/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/graph.h"
#include "graph/op.h"
#include "neap/error.h"

namespace neap {

Builder::Builder(Mode mode) : graph_(std::make_unique<Graph>()), mode_(mode) {}
Builder::Builder(Graph graph) : graph_(std::make_unique<Graph>(std::move(graph))) {}
Builder::~Builder() = default;

std::string Builder::unique(std::string name) {
  if (!graph_->has_name(name)) return name;
  for (int& i = copies_[name];;) {
    std::string next = fmt::format("{}.{}", name, ++i + 1);
    if (!graph_->has_name(next)) return next;
  }
}

Value Builder::input(std::string name, DType dtype, Shape shape) {
  return graph_->add({.name = std::move(name), .type = {dtype, std::move(shape)}, .role = Role::kInput});
}

Value Builder::parameter(const std::string& name, Shape shape, Init init, std::vector<int> axes) {
  return graph_->add({.name = scope_ + name,
                      .type = {DType::kF32, std::move(shape)},
                      .role = Role::kParameter,
                      .trainable = true,
                      .init = init,
                      .outside_axes = std::move(axes)});
}

Value Builder::buffer(const std::string& name, Shape shape, double fill) {
  return graph_->add({.name = scope_ + name,
                      .type = {DType::kF32, std::move(shape)},
                      .role = Role::kBuffer,
                      .init = Init::constant(fill)});
}

namespace {

void check_given(const std::string& name, const Shape& shape, const Given& given) {
  const std::int64_t bytes = byte_size(DType::kF32, shape.count());
  if (static_cast<std::int64_t>(given.values->size()) != bytes) {
    throw UserError(fmt::format("'{}' has {} bytes, f32{} needs {}", name, given.values->size(), shape.text(), bytes));
  }
  const auto rank = static_cast<std::size_t>(shape.rank());
  require(given.axes.empty() || given.axes.size() == rank, "one axis here for each outside");
}

}  // namespace

Value Builder::parameter(const std::string& name, Shape shape, Given given) {
  check_given(name, shape, given);
  return graph_->add({.name = name,
                      .type = {DType::kF32, std::move(shape)},
                      .role = Role::kParameter,
                      .trainable = true,
                      .data = std::move(given.values),
                      .outside_axes = std::move(given.axes)});
}

Value Builder::buffer(const std::string& name, Shape shape, Given given) {
  check_given(name, shape, given);
  return graph_->add({.name = name,
                      .type = {DType::kF32, std::move(shape)},
                      .role = Role::kBuffer,
                      .data = std::move(given.values),
                      .outside_axes = std::move(given.axes)});
}

std::shared_ptr<const Blob> Blob::of(std::vector<std::byte> bytes) {
  auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return std::make_shared<const Blob>(Blob{.bytes = *kept, .owner = kept});
}

bool operator==(const Blob& a, const Blob& b) {
  return a.size() == b.size() && std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin());
}

Value Builder::constant(std::string name, TensorType type, std::vector<std::byte> data) {
  if (static_cast<std::int64_t>(data.size()) != type.bytes()) {
    throw UserError(
        fmt::format("constant '{}' has {} bytes, {} needs {}", name, data.size(), type.text(), type.bytes()));
  }
  return graph_->add({.name = unique(scope_ + name),
                      .type = std::move(type),
                      .role = Role::kConstant,
                      .data = Blob::of(std::move(data))});
}

Value Builder::scalar(double value) {
  const auto narrow = static_cast<float>(value);
  const std::string label = fmt::format("scalar({})", narrow);
  if (const auto known = graph_->find(label)) return *known;
  std::vector<std::byte> data(sizeof narrow);
  std::memcpy(data.data(), &narrow, sizeof narrow);
  return graph_->add(
      {.name = label, .type = {DType::kF32, {}}, .role = Role::kConstant, .data = Blob::of(std::move(data))});
}

Value Builder::random_key() {
  const auto known = graph_->find(kRandomInput);
  return known ? *known : input(std::string(kRandomInput), DType::kU64, {3});
}

Values Builder::add(std::string_view op, Values inputs, Attrs attrs, std::string name) {
  std::string label = unique(scope_ + (name.empty() ? std::string(op) : std::move(name)));
  std::string layer = scope_.empty() ? label : scope_.substr(0, scope_.size() - 1);
  const NodeId id = graph_->append({.op = &op_named(op),
                                    .name = std::move(label),
                                    .layer = std::move(layer),
                                    .inputs = std::move(inputs),
                                    .attrs = std::move(attrs)});
  return graph_->at(id).outputs;
}

Value Builder::operator()(std::string_view op, Values inputs, Attrs attrs, std::string name) {
  return add(op, std::move(inputs), std::move(attrs), std::move(name)).at(0);
}

const std::string& Builder::name_of(Value value) const { return graph_->at(value).name; }

const TensorType& Builder::type(Value value) const { return graph_->at(value).type; }

void Builder::output(std::string name, Value value) { graph_->outputs.emplace_back(std::move(name), value); }

Graph Builder::take() { return std::move(*graph_); }

Builder::Scope::Scope(Builder& builder, std::string_view name) : builder_(builder), length_(builder.scope_.size()) {
  builder_.scope_ += name;
  builder_.scope_ += '.';
}

Builder::Scope::~Scope() { builder_.scope_.resize(length_); }

}  // namespace neap
