// Runs folders of the ONNX project's node tests: model.onnx with test_data_set_*/input_N.pb and output_N.pb.
// usage: onnx_node_test [FOLDER...]     folders also come from standard input, one a line
// One JSON object a folder: {"test", "status": passed | unsupported | failed, "reason", "ops"}.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "onnx/importer.h"
#include "ops/evaluate.h"

namespace neap::onnx {
namespace {

namespace fs = std::filesystem;
constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

struct Failed {
  std::string why;
};
struct Unsupported {
  std::string why;
};

template <class Proto>
void parse(const fs::path& path, Proto& proto) {
  std::ifstream in(path, std::ios::binary);
  if (!proto.ParseFromIstream(&in)) throw Failed{fmt::format("cannot read {}", path.string())};
}

Constant read_constant(const fs::path& path) {
  const auto proto = std::make_shared<pb::TensorProto>();
  parse(path, *proto);
  return read_tensor(*proto, proto, nullptr, false);
}

using Given = std::map<std::string, Constant>;

Given inputs_of(const pb::ModelProto& model, const fs::path& data) {
  std::set<std::string> known;
  for (const auto& t : model.graph().initializer()) known.insert(t.name());
  Given out;
  int i = 0;
  for (const auto& input : model.graph().input()) {
    if (known.contains(input.name())) continue;
    if (!input.type().has_tensor_type()) throw Unsupported{"sequences, maps and optional values"};
    out[input.name()] = read_constant(data / fmt::format("input_{}.pb", i++));
  }
  return out;
}

void compare_numbers(const Constant& got, const Constant& want, const std::string& name) {
  const std::vector<double> a = reals_of(got);
  const std::vector<double> b = reals_of(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (both_nan || a[i] == b[i] || std::abs(a[i] - b[i]) <= kAbsolute + kRelative * std::abs(b[i])) continue;
    throw Failed{fmt::format("'{}'[{}] is {}, not {}", name, i, a[i], b[i])};
  }
}

void compare(const Constant& got, const Constant& want, const std::string& name) {
  if (!(got.type == want.type)) {
    throw Failed{fmt::format("'{}' is {}, not {}", name, got.type.text(), want.type.text())};
  }
  if (std::equal(got.data->bytes.begin(), got.data->bytes.end(), want.data->bytes.begin())) return;
  if (!is_float(got.type.dtype)) {
    const Ints a = ints_of(got);
    const Ints b = ints_of(want);
    if (a != b) throw Failed{fmt::format("'{}' differs", name)};
    return;
  }
  compare_numbers(got, want, name);
}

std::map<std::string, Constant> run(const pb::ModelProto& model, const std::shared_ptr<const void>& owner,
                                    const fs::path& path, const Given& given, const std::set<std::string>& fixed) {
  ExternalFiles files(path);
  Builder g;
  ImportOptions options{.widen = false};
  std::map<std::string, Shape> shapes;
  std::map<std::string, HostTensor> leaves;
  for (const auto& [name, constant] : given) {
    if (fixed.contains(name)) {
      options.known[name] = constant;
      continue;
    }
    shapes[name] = constant.type.shape;
    HostTensor leaf(constant.type);
    std::copy(constant.data->bytes.begin(), constant.data->bytes.end(), leaf.data.begin());
    leaves[name] = std::move(leaf);
  }
  Importer importer(model, owner, files, g, options);
  importer.run(shapes);
  std::map<std::string, Value> values;
  for (const auto& output : model.graph().output()) values[output.name()] = importer.result(output.name());
  const Graph graph = g.take();
  if (graph.find(kRandomInput)) throw Unsupported{"the random numbers are Neap's own"};
  const std::vector<HostTensor> all = evaluate(graph, leaves);
  std::map<std::string, Constant> out;
  for (const auto& [name, value] : values) {
    out[name] = {.type = all[value.index].type, .data = Blob::of(all[value.index].data)};
  }
  return out;
}

// Inputs that must be known beforehand (shapes, axes) are given as constants, and only those.
std::map<std::string, Constant> run_with_what_it_needs(const pb::ModelProto& model,
                                                       const std::shared_ptr<const void>& owner, const fs::path& path,
                                                       const Given& given) {
  std::set<std::string> fixed;
  for (;;) {
    try {
      return run(model, owner, path, given, fixed);
    } catch (const ImportError& e) {
      const std::size_t before = fixed.size();
      for (const std::string& name : e.not_constant) {
        if (given.contains(name)) fixed.insert(name);
      }
      if (fixed.size() == before && !e.not_constant.empty()) {  // behind arithmetic: everything that is no float
        for (const auto& [name, constant] : given) {
          if (!is_float(constant.type.dtype)) fixed.insert(name);
        }
      }
      if (fixed.size() == before) throw;
    }
  }
}

void check(const fs::path& folder, const std::shared_ptr<pb::ModelProto>& model) {
  for (const auto& output : model->graph().output()) {
    if (!output.type().has_tensor_type()) throw Unsupported{"sequences, maps and optional values"};
  }
  bool ran = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("test_data_set_")) continue;
    const auto got = run_with_what_it_needs(*model, model, folder / "model.onnx", inputs_of(*model, entry.path()));
    int i = 0;
    for (const auto& output : model->graph().output()) {
      Constant want = read_constant(entry.path() / fmt::format("output_{}.pb", i++));
      const auto declared = dtype_of(output.type().tensor_type().elem_type(), false);
      const bool is_by_bits = declared == DType::kBF16 && want.type.dtype == DType::kU16;  // numpy has no bfloat16
      Constant have = got.at(output.name());
      if (is_by_bits && have.type.dtype == DType::kBF16) {
        have.type.dtype = DType::kU16;  // as ONNX's own runner: bits as numbers, within the tolerance
        compare_numbers(have, want, output.name());
      } else {
        compare(have, want, output.name());
      }
    }
    ran = true;
  }
  if (!ran) throw Failed{"there is no data set"};
}

nlohmann::json report(const fs::path& folder) {
  nlohmann::json out = {{"test", folder.filename().string()}, {"status", "passed"}, {"reason", ""}};
  std::set<std::string> ops;
  const auto say = [&](const char* status, const std::string& why) {
    out["status"] = status;
    out["reason"] = why;
  };
  try {
    const auto model = std::make_shared<pb::ModelProto>();
    parse(folder / "model.onnx", *model);
    for (const auto& node : model->graph().node()) ops.insert(node.op_type());
    check(folder, model);
  } catch (const Failed& e) {
    say("failed", e.why);
  } catch (const Unsupported& e) {
    say("unsupported", e.why);
  } catch (const UserError& e) {
    say("unsupported", e.what());
  } catch (const std::exception& e) {
    say("failed", e.what());
  }
  out["ops"] = ops;
  return out;
}

}  // namespace
}  // namespace neap::onnx

int main(int argc, char** argv) {
  std::vector<std::string> folders(argv + 1, argv + argc);
  const auto show = [](const std::string& folder) {
    std::cout << neap::onnx::report(folder).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  };
  for (const std::string& folder : folders) show(folder);
  if (!folders.empty()) return 0;
  for (std::string line; std::getline(std::cin, line);) show(line);
  return 0;
}
