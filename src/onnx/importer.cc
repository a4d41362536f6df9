#include "onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/file.h"
#include "onnx/limits.h"
#include "onnx/weights.h"

namespace neap::onnx {
namespace {

constexpr std::size_t kMaxProblemsShown = 20;
constexpr std::size_t kMaxProblem = 400;  // bytes that one may take in the message

// "/encoder/layer.0/attention/MatMul_1" was made in encoder.layer.0.attention.
std::string layer_of(const pb::NodeProto& node) {
  std::string text = node.name();
  if (!text.starts_with('/')) return printable(text.empty() ? node.op_type() : text);
  const std::size_t end = text.rfind('/');
  if (end == 0) return printable(text.substr(1));
  text = text.substr(1, end - 1);
  std::replace(text.begin(), text.end(), '/', '.');
  return printable(text);
}

bool all_constant(const std::vector<Operand>& operands) {
  return std::all_of(operands.begin(), operands.end(), [](const Operand& x) { return !x || x.constant; });
}

}  // namespace

std::string label_of(const pb::NodeProto& node) {
  const std::string op = node.domain().empty() || node.domain() == "ai.onnx"
                             ? node.op_type()
                             : fmt::format("{}.{}", node.domain(), node.op_type());
  const std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : std::string();
  return fmt::format("node '{}' ({})", printable(name), printable(op));
}

Importer::Importer(const pb::ModelProto& model, std::shared_ptr<const void> owner, ExternalFiles& files, Builder& g,
                   ImportOptions options)
    : model_(model), owner_(std::move(owner)), files_(files), options_(std::move(options)), target_{.g = g} {}

int Importer::opset_of(const std::string& domain) const {
  const auto is_default = [](const std::string& d) { return d.empty() || d == "ai.onnx"; };
  for (const auto& import : model_.opset_import()) {
    if (import.domain() == domain || (is_default(domain) && is_default(import.domain()))) {
      return static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, 1'000'000));
    }
  }
  return 0;
}

const Operand* Importer::find(const std::string& name) const {
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    const auto& names = scopes_[i].names;
    if (const auto at = names.find(name); at != names.end()) return &at->second;
  }
  return nullptr;
}

const Operand& Importer::operand(const std::string& name) const {
  const Operand* found = find(name);
  if (found == nullptr) throw UserError(fmt::format("nothing gives the result '{}'", printable(name)));
  return *found;
}

Value Importer::result(const std::string& name, const Perm& perm) {
  const pb::NodeProto none;
  Context c(none, 0, {operand(name)}, target_, this);
  return c.moved(0, perm);
}

void Importer::add_initializers(const pb::GraphProto& graph, Names& names, bool trains) {
  const WeightRoles roles = trains ? roles_of(graph) : WeightRoles{};
  for (const pb::TensorProto& t : graph.initializer()) {
    if (t.name().empty()) continue;  // nothing can read it
    const auto constant = std::make_shared<const Constant>(read_tensor(t, owner_, &files_, options_.widen));
    Operand x{.type = constant->type};
    const WeightRole role = trains ? role_of(t.name(), *constant, roles) : WeightRole::kConstant;
    if (role == WeightRole::kConstant) {
      x.constant = constant;
    } else {
      x.weight = std::make_shared<Weight>(
          Weight{.name = t.name(), .first = *constant, .trained = role == WeightRole::kTrained});
    }
    if (!names.emplace(t.name(), std::move(x)).second) {
      throw UserError(fmt::format("two initializers have the name '{}'", printable(t.name())));
    }
  }
  if (graph.sparse_initializer_size() > 0) throw UserError("sparse initializers are not supported");
}

void Importer::add_inputs(const pb::GraphProto& graph, const std::map<std::string, Shape>& shapes) {
  for (const pb::ValueInfoProto& input : graph.input()) {
    if (scopes_.back().names.contains(input.name())) continue;  // an initializer that may be overridden
    if (const auto known = options_.known.find(input.name()); known != options_.known.end()) {
      scopes_.back().names[input.name()] = {.type = known->second.type,
                                            .constant = std::make_shared<const Constant>(known->second)};
      continue;
    }
    const auto type = dtype_of(input.type().tensor_type().elem_type(), options_.widen);
    if (!type) {
      throw UserError(fmt::format("input '{}': {} is not supported", printable(input.name()),
                                  onnx_type_name(input.type().tensor_type().elem_type())));
    }
    if (target_.g.graph().has_name(input.name()) || input.name().starts_with("step.")) {
      throw UserError(fmt::format("the name '{}' of an input is taken", printable(input.name())));
    }
    const Value value = target_.g.input(input.name(), *type, shapes.at(input.name()));
    scopes_.back().names[input.name()] = {.type = target_.g.type(value), .value = value};
  }
}

void Importer::run(const std::map<std::string, Shape>& input_shapes) {
  scopes_.emplace_back();
  add_initializers(model_.graph(), scopes_.back().names, true);
  add_inputs(model_.graph(), input_shapes);
  import_nodes(model_.graph(), target_);
  if (problems_.empty()) return;
  std::string all;
  const std::size_t shown = std::min(problems_.size(), kMaxProblemsShown);
  for (std::size_t i = 0; i < shown; ++i) all += (i == 0 ? "" : "; ") + problems_[i];
  if (shown < problems_.size()) all += fmt::format("; and {} more", problems_.size() - shown);
  throw ImportError(all, not_constant_);
}

void Importer::import_nodes(const pb::GraphProto& graph, Target& target) {
  std::set<std::string>& later = scopes_.back().later;
  for (const pb::NodeProto& node : graph.node()) later.insert(node.output().begin(), node.output().end());
  for (const pb::NodeProto& node : graph.node()) import_node(node, target);
}

std::vector<Operand> Importer::operands_of(const pb::NodeProto& node) const {
  std::vector<Operand> out;
  for (const std::string& name : node.input()) {
    const Operand* x = name.empty() ? nullptr : find(name);
    if (!name.empty() && x == nullptr) {
      const bool is_later =
          std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) { return scope.later.contains(name); });
      const char* why = is_later ? "comes from a node behind it or from a cycle" : "comes from nowhere";
      throw UserError(fmt::format("its input '{}' {}", printable(name), why));
    }
    out.push_back(x == nullptr ? Operand{} : *x);
  }
  return out;
}

void Importer::count_made() {
  if (++made_ > kMaxMade) throw UserError(fmt::format("the model comes to more than {} nodes", kMaxMade));
}

void Importer::add_problem(const pb::NodeProto& node, const std::string& why) {
  std::string text = label_of(node);
  if (!inside_.empty()) text += fmt::format(" inside {}", inside_.front());
  text += ": ";
  // What ops say may quote the file; label_of() does not.
  for (const char c : why.substr(0, kMaxProblem)) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7f ? '?' : c;
  }
  if (known_problems_.insert(text).second) problems_.push_back(std::move(text));
}

void Importer::import_node(const pb::NodeProto& node, Target& target) {
  if (++imported_ > kMaxImported) throw UserError(fmt::format("more than {} nodes, loops counted", kMaxImported));
  const auto fail = [&](const std::string& why) {
    add_problem(node, why);
    define(node, std::vector<Operand>(static_cast<std::size_t>(node.output_size()), Operand{.failed = true}));
  };
  if (node.output_size() == 0) return fail("it has no outputs");
  const RuleEntry* rule = find_rule(node.domain(), node.op_type());
  if (rule == nullptr) return fail("this op is not supported");
  try {
    std::vector<Operand> operands = operands_of(node);
    if (std::any_of(operands.begin(), operands.end(), [](const Operand& x) { return x.failed; })) {
      define(node, std::vector<Operand>(static_cast<std::size_t>(node.output_size()), Operand{.failed = true}));
      return;  // the cause is reported already
    }
    const int opset = opset_of(node.domain());
    if (opset < rule->since) throw UserError(fmt::format("opset {} is older than {}", opset, rule->since));
    std::vector<Operand> outputs;
    const bool can_fold = rule->folds && all_constant(operands);
    if (!can_fold || !fold(*rule, node, operands, outputs)) outputs = run_rule(*rule, node, operands, target);
    define(node, std::move(outputs));
  } catch (const NotConstant& e) {
    not_constant_.insert(e.operand);
    fail(fmt::format("its input '{}' must be known before training starts", printable(e.operand)));
  } catch (const UserError& e) {
    fail(e.what());
  }
}

std::vector<Operand> Importer::run_rule(const RuleEntry& rule, const pb::NodeProto& node,
                                        const std::vector<Operand>& operands, Target& target) {
  const Builder::Scope scope(target.g, layer_of(node));
  Context c(node, opset_of(node.domain()), operands, target, this);
  rule.rule(c);
  c.check_inputs();
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty() && !c.outputs()[static_cast<std::size_t>(i)]) {
      throw UserError(fmt::format("output {} is not supported", i));
    }
  }
  return std::move(c.outputs());
}

void Importer::define(const pb::NodeProto& node, std::vector<Operand> outputs) {
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    scopes_.back().later.erase(name);
    if (!scopes_.back().names.emplace(name, std::move(outputs[static_cast<std::size_t>(i)])).second) {
      throw UserError(fmt::format("{}: its output '{}' exists already", label_of(node), printable(name)));
    }
  }
}

std::vector<Operand> Importer::run_subgraph(const pb::NodeProto& node, const pb::GraphProto& graph,
                                            std::vector<Operand> operands, Target& target) {
  if (scopes_.size() > kMaxDepth) throw UserError("subgraphs are nested too deeply");
  Names& own = initializers_[&graph];
  if (own.empty()) add_initializers(graph, own, false);
  Names names = own;
  if (static_cast<int>(operands.size()) != graph.input_size()) {
    throw UserError(fmt::format("a subgraph takes {} inputs and gets {}", graph.input_size(), operands.size()));
  }
  for (int i = 0; i < graph.input_size(); ++i) {
    names[graph.input(i).name()] = std::move(operands[static_cast<std::size_t>(i)]);
  }
  scopes_.push_back({.names = std::move(names)});
  inside_.push_back(label_of(node));
  std::vector<Operand> out;
  try {
    import_nodes(graph, target);
    for (const pb::ValueInfoProto& o : graph.output()) out.push_back(operand(o.name()));
  } catch (...) {
    scopes_.pop_back();
    inside_.pop_back();
    throw;
  }
  scopes_.pop_back();
  inside_.pop_back();
  return out;
}

}  // namespace neap::onnx
