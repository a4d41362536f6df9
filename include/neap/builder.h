// Builds a graph node by node. A model is a function that takes a Builder; see models/ for examples.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "neap/attrs.h"
#include "neap/dtype.h"
#include "neap/shape.h"

namespace neap {

class Graph;

// A tensor of the graph that is being built. A default Value stands for an input that is not given.
struct Value {
  std::uint32_t index = ~0U;
  constexpr explicit operator bool() const { return index != ~0U; }
  auto operator<=>(const Value&) const = default;
};
using Values = std::vector<Value>;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  std::int64_t elements() const { return shape.count(); }
  std::int64_t bytes() const { return byte_size(dtype, shape.count()); }
  std::string text() const;  // f32[2,3]
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Bytes that `owner` keeps alive: a mapped file, a parsed model, a vector.
struct Blob {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool is_mapped = false;  // from a file: the system can fetch the bytes again

  static std::shared_ptr<const Blob> of(std::vector<std::byte> bytes);
  const std::byte* data() const { return bytes.data(); }
  std::size_t size() const { return bytes.size(); }
  friend bool operator==(const Blob& a, const Blob& b);  // the bytes
};

// Values that come from outside, in the layout that they have there: axis i of the shape outside is axis axes[i] here
// (empty: the same order). Files that are written later have the layout from outside again.
struct Given {
  std::shared_ptr<const Blob> values;
  std::vector<int> axes;
};

// How a parameter starts. Its numbers depend on the seed and its own name alone, not on the other parameters.
struct Init {
  enum class Kind : std::uint8_t { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double scale = 0;  // the constant, the standard deviation, or half the width

  static Init constant(double value) { return {Kind::kConstant, value}; }
  static Init normal(double deviation) { return {Kind::kNormal, deviation}; }
  static Init uniform(double bound) { return {Kind::kUniform, bound}; }
  friend bool operator==(const Init&, const Init&) = default;
};

// Dropout and batch norm behave differently in the two.
enum class Mode : std::uint8_t { kTraining, kEvaluation };

// The input that ops with random numbers read: u64 {seed, step, index of the first element in the whole batch}.
inline constexpr std::string_view kRandomInput = "step.rng";

class Builder {
 public:
  explicit Builder(Mode mode = Mode::kTraining);
  explicit Builder(Graph graph);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value input(std::string name, DType dtype, Shape shape);
  // f32, trained. `axes`: the layout that it has in files, as in Given.
  Value parameter(const std::string& name, Shape shape, Init init, std::vector<int> axes = {});
  // f32, kept from step to step, not trained.
  Value buffer(const std::string& name, Shape shape, double fill = 0);
  // The same with values from outside; `shape` is the one here. The names are taken as they are, without the scope.
  Value parameter(const std::string& name, Shape shape, Given given);
  Value buffer(const std::string& name, Shape shape, Given given);
  Value constant(std::string name, TensorType type, std::vector<std::byte> data);
  Value scalar(double value);  // f32 constant of rank 0

  // Adds a node and returns its outputs. UserError names the op and the shapes when they do not fit.
  Values add(std::string_view op, Values inputs, Attrs attrs = {}, std::string name = {});
  // The same, for the first output.
  Value operator()(std::string_view op, Values inputs, Attrs attrs = {}, std::string name = {});

  // The input named kRandomInput, made when it is first asked for.
  Value random_key();
  Mode mode() const { return mode_; }
  // Batch norm uses its running statistics in training too, and leaves them as they are.
  void freeze_batch_norm(bool frozen) { frozen_batch_norm_ = frozen; }
  bool has_frozen_batch_norm() const { return frozen_batch_norm_ || mode_ == Mode::kEvaluation; }
  const std::string& scope() const { return scope_; }

  const std::string& name_of(Value value) const;
  const TensorType& type(Value value) const;
  const Shape& shape(Value value) const { return type(value).shape; }

  // Names a result. The result named "loss" is what training minimises.
  void output(std::string name, Value value);

  // Nodes and parameters added while a Scope lives get its name as a prefix: "blocks.0.fc1.weight".
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t length_;
  };

  Graph& graph() { return *graph_; }
  Graph take();

 private:
  std::string unique(std::string name);
  std::unique_ptr<Graph> graph_;
  std::unordered_map<std::string, int> copies_;  // how often a name was taken
  std::string scope_;
  Mode mode_ = Mode::kTraining;
  bool frozen_batch_norm_ = false;
};

}  // namespace neap
