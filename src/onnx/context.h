// What the rule for one ONNX op works with: operands, attributes, and the graph under construction.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/operand.h"

namespace neap::onnx {

// An operand must be known when the graph is built, and is not. `input` is the model input behind it, when there is
// one.
struct NotConstant {
  std::string operand;
};

// The graph that nodes go to, and what was moved into which layout there.
struct Target {
  Builder& g;
  std::map<std::pair<std::uint32_t, Perm>, Value> moved;
  std::map<const Constant*, Value> constants;
  std::vector<ConstantPtr> kept;  // those, so that no other takes a pointer's place
};

class Importer;

class Context {
 public:
  Context(const pb::NodeProto& node, int opset, std::vector<Operand> operands, Target& target, Importer* importer);

  Builder& g;
  const pb::NodeProto& node;
  const int opset;

  std::size_t inputs() const;
  bool has(std::size_t i) const;
  const Operand& operand(std::size_t i) const;  // UserError when it is not given
  const TensorType& type(std::size_t i) const { return operand(i).type; }
  const Shape& shape(std::size_t i) const { return type(i).shape; }
  Ints sizes(std::size_t i) const { return shape(i).sizes(); }
  int rank(std::size_t i) const { return shape(i).rank(); }
  DType dtype(std::size_t i) const { return type(i).dtype; }
  // UserError when the operand's rank is another.
  void need_rank(std::size_t i, int least, int most) const;

  // The operand in ONNX's order of axes; default when not given.
  Value in(std::size_t i);
  // The operand moved: axis j is ONNX's axis perm[j].
  Value moved(std::size_t i, const Perm& perm);
  Value moved(const Operand& operand, const Perm& perm);

  // The operand in whatever order its axes are in now: ONNX's axis i is axis axes[i] of the result.
  Value as_it_is(std::size_t i, Perm& axes);
  // Several operands under numpy's broadcasting, all in one order of axes, which is that of one of them.
  Values together(const std::vector<std::size_t>& which, Perm& axes);

  bool is_constant(std::size_t i) const { return operand(i).constant != nullptr; }
  // Throws NotConstant when it is not known.
  const Constant& constant(std::size_t i) const;
  Ints ints(std::size_t i) const;
  std::vector<double> reals(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;  // the only element
  double real(std::size_t i) const;
  // From input i where it is given, else from the attribute; `fallback` when neither is.
  Ints ints(std::size_t i, std::string_view attribute, const Ints& fallback) const;

  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Ints ints(std::string_view name, const Ints& fallback) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const pb::AttributeProto* find(std::string_view name) const;
  DType dtype_attr(std::string_view name, DType fallback) const;
  bool widens() const;
  // Does batch norm use its running statistics? --bn decides, else the file, in training; in evaluation always.
  bool batch_norm_frozen(bool file_trains) const;

  bool wants(std::size_t output) const;
  void out(std::size_t i, Value value, Perm axes = {});  // axes as in Operand
  void out(std::size_t i, Constant constant);
  void out(std::size_t i, Operand operand);

  // Adds a node of Neap's; UserError when what it makes is too large.
  Values add_all(std::string_view op, Values inputs, Attrs attrs = {});
  Value add(std::string_view op, Values inputs, Attrs attrs = {}) {
    return add_all(op, std::move(inputs), std::move(attrs)).at(0);
  }
  Value cast(Value x, DType to);
  Value scalar(double value, DType type);       // rank 0
  Value constant_of(const Constant& constant);  // in the graph
  Value reshape(Value x, const Shape& shape);
  Value transpose(Value x, const Perm& perm);  // nothing when the order stays

  // Runs a subgraph of this node with these operands for its inputs; what its outputs are.
  std::vector<Operand> run_subgraph(std::string_view attribute, std::vector<Operand> operands);

  std::vector<Operand>& outputs() { return outputs_; }
  // Inputs given that the rule did not ask for: more than the op takes. UserError names the first.
  void check_inputs() const;

 private:
  Value make_weight(Weight& weight, const Perm& perm);

  std::vector<Operand> operands_;
  std::vector<Operand> outputs_;
  Target& target_;
  mutable std::size_t asked_ = 0;  // the rule asked for inputs below this
  Importer* importer_;
};

using Rule = void (*)(Context&);

struct RuleEntry {
  std::string_view op;
  Rule rule;
  int since = 1;      // the first opset for which the rule holds
  bool folds = true;  // a node whose operands are all constants is a constant
};

// One table a file of rules; rules.cc lists them.
std::span<const RuleEntry> elementwise_rules();
std::span<const RuleEntry> shape_rules();
std::span<const RuleEntry> constant_rules();
std::span<const RuleEntry> index_rules();
std::span<const RuleEntry> reduce_rules();
std::span<const RuleEntry> product_rules();
std::span<const RuleEntry> image_rules();
std::span<const RuleEntry> resize_rules();
std::span<const RuleEntry> norm_rules();
std::span<const RuleEntry> loss_rules();
std::span<const RuleEntry> recurrent_rules();
std::span<const RuleEntry> control_rules();
std::span<const RuleEntry> quantize_rules();
std::span<const RuleEntry> signal_rules();

// All tables.
std::vector<std::span<const RuleEntry>> all_rules();
// Null: there is none.
const RuleEntry* find_rule(std::string_view domain, std::string_view op);

// The shape with what one -1 in it stands for, told from `x`; a 0 copies the axis of `x` where that is wanted.
Shape resolved(Ints wanted, const Shape& x, bool copies_zero);

// Axis counted from the end made plain; UserError when there is none such.
int plain_axis(std::int64_t axis, int rank);
Ints plain_axes(Ints axes, int rank);

}  // namespace neap::onnx
