#include "remat/problem_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/file.h"
#include "core/json_depth.h"
#include "neap/error.h"

namespace neap::remat {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostBytes = 0x1p62;
constexpr std::size_t kMostItems = 2'000'000;
constexpr std::size_t kShown = 60;  // characters of a name in a message

std::string shown(const std::string& name) {
  return name.size() <= kShown ? printable(name) : printable(name.substr(0, kShown)) + "...";
}

void drop_repeats(std::vector<TensorIndex>& list) {
  std::unordered_set<TensorIndex> seen;
  std::erase_if(list, [&](TensorIndex t) { return !seen.insert(t).second; });
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Problem read(std::string_view text, bool has_budget) {
    const Json root = parse(text);
    if (!root.is_object()) fail("the file is no JSON object");
    if (has_budget || root.contains("budget")) problem_.budget = bytes(root, "budget", "the problem");
    for (const Json& item : list(root, "inputs", "the problem", false)) add_tensor(item, kNoOp, "'inputs'");
    const Json& ops = list(root, "ops", "the problem", true);
    for (const Json& item : ops) add_op(item);
    connect(ops);
    for (const Json& item : list(root, "keep", "the problem", false)) problem_.keep.push_back(tensor(item, "'keep'"));
    drop_repeats(problem_.keep);
    if (const std::string fault = find_fault(problem_); !fault.empty()) fail(printable(fault));
    return std::move(problem_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw UserError(fmt::format("{}: {}", file_, what)); }

  Json parse(std::string_view text) const {
    if (is_nested_deeply(text))
      fail(fmt::format("it is nested over {} levels deep, and no problem is", kMostJsonLevels));
    try {
      return Json::parse(text);
    } catch (const Json::parse_error& e) {
      fail(fmt::format("no JSON (byte {})", e.byte));
    } catch (const Json::exception&) {  // a number beyond every double
      fail("no JSON that can be read: a number is out of range");
    }
  }

  const Json& list(const Json& in, const char* key, const std::string& where, bool must) const {
    static const Json kNone = Json::array();
    const auto it = in.find(key);
    if (it == in.end()) {
      if (must) fail(fmt::format("{} has no '{}'", where, key));
      return kNone;
    }
    if (!it->is_array()) fail(fmt::format("'{}' of {} is no list", key, where));
    if (it->size() > kMostItems) fail(fmt::format("'{}' of {} is longer than {}", key, where, kMostItems));
    return *it;
  }

  std::string text(const Json& in, const char* key, const std::string& where) const {
    const auto it = in.find(key);
    if (it == in.end()) fail(fmt::format("{} has no '{}'", where, key));
    if (!it->is_string() || it->get_ref<const std::string&>().empty()) {
      fail(fmt::format("'{}' of {} is no name", key, where));
    }
    return it->get<std::string>();
  }

  double number(const Json& in, const char* key, const std::string& where) const {
    const auto it = in.find(key);
    if (it == in.end()) fail(fmt::format("{} has no '{}'", where, key));
    if (!it->is_number()) fail(fmt::format("'{}' of {} is no number", key, where));
    return it->get<double>();
  }

  std::int64_t bytes(const Json& in, const char* key, const std::string& where) const {
    const double value = number(in, key, where);
    if (value < 0) fail(fmt::format("'{}' of {} is negative", key, where));
    if (!(value <= kMostBytes)) fail(fmt::format("'{}' of {} is beyond 2^62 bytes", key, where));
    if (value != std::floor(value)) fail(fmt::format("'{}' of {} is no whole number of bytes", key, where));
    const Json& exact = *in.find(key);
    return exact.is_number_integer() ? exact.get<std::int64_t>() : static_cast<std::int64_t>(value);
  }

  void add_tensor(const Json& item, OpIndex op, const std::string& where) {
    if (!item.is_object()) fail(fmt::format("an entry of {} is no object with name and bytes", where));
    std::string name = text(item, "name", "a tensor in " + where);
    const std::int64_t size = bytes(item, "bytes", fmt::format("tensor '{}'", shown(name)));
    const auto [it, is_new] = by_name_.try_emplace(name, static_cast<TensorIndex>(problem_.tensors.size()));
    if (!is_new) fail(fmt::format("tensor '{}' is there twice", shown(name)));
    if (op != kNoOp) problem_.ops[op].outputs.push_back(it->second);
    problem_.tensors.push_back({.name = std::move(name), .bytes = size, .op = op});
  }

  void add_op(const Json& item) {
    if (!item.is_object()) fail("an entry of 'ops' is no object");
    const std::string number_of = fmt::format("op {}", problem_.ops.size());
    Op op{.name = text(item, "name", number_of)};
    const std::string where = fmt::format("op '{}'", shown(op.name));
    if (!op_names_.insert(op.name).second) fail(where + " is there twice");
    op.ms = number(item, "ms", where);
    if (!std::isfinite(op.ms) || op.ms < 0) fail(fmt::format("'ms' of {} is no time", where));
    if (item.contains("workspace")) op.workspace = bytes(item, "workspace", where);
    if (const auto it = item.find("recompute"); it != item.end()) {
      if (!it->is_boolean()) fail(fmt::format("'recompute' of {} is neither true nor false", where));
      op.recompute = it->get<bool>();
    }
    problem_.ops.push_back(std::move(op));
    const auto index = static_cast<OpIndex>(problem_.ops.size() - 1);
    for (const Json& out : list(item, "outputs", where, false)) add_tensor(out, index, "the outputs of " + where);
  }

  TensorIndex tensor(const Json& item, const std::string& where) const {
    if (!item.is_string()) fail(fmt::format("an entry of {} is no name", where));
    const auto it = by_name_.find(item.get<std::string>());
    if (it == by_name_.end()) {
      fail(fmt::format("{} names '{}', which nothing makes", where, shown(item.get<std::string>())));
    }
    return it->second;
  }

  void connect(const Json& ops) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Op& op = problem_.ops[i];
      const std::string where = fmt::format("op '{}'", shown(op.name));
      for (const Json& in : list(ops[i], "inputs", where, false)) op.inputs.push_back(tensor(in, where));
      drop_repeats(op.inputs);  // x * x reads x once
    }
  }

  const std::string& file_;
  Problem problem_;
  std::unordered_map<std::string, TensorIndex> by_name_;
  std::unordered_set<std::string> op_names_;
};

}  // namespace

Problem parse_problem(std::string_view text, const std::string& file, bool has_budget) {
  return Reader(file).read(text, has_budget);
}

std::string to_json_text(const Problem& problem) {
  const auto tensor = [&](TensorIndex t) {
    return Json{{"name", problem.tensors[t].name}, {"bytes", problem.tensors[t].bytes}};
  };
  Json inputs = Json::array();
  for (TensorIndex t = 0; t < problem.tensors.size(); ++t) {
    if (problem.tensors[t].op == kNoOp) inputs.push_back(tensor(t));
  }
  Json ops = Json::array();
  for (const Op& op : problem.ops) {
    Json reads = Json::array();
    for (const TensorIndex t : op.inputs) reads.push_back(problem.tensors[t].name);
    Json makes = Json::array();
    for (const TensorIndex t : op.outputs) makes.push_back(tensor(t));
    ops.push_back({{"name", op.name},
                   {"ms", op.ms},
                   {"inputs", std::move(reads)},
                   {"outputs", std::move(makes)},
                   {"workspace", op.workspace},
                   {"recompute", op.recompute}});
  }
  Json keep = Json::array();
  for (const TensorIndex t : problem.keep) keep.push_back(problem.tensors[t].name);
  const Json root = {
      {"budget", problem.budget}, {"inputs", std::move(inputs)}, {"ops", std::move(ops)}, {"keep", std::move(keep)}};
  return root.dump() + "\n";
}

}  // namespace neap::remat
