#include "onnx/onnx_model.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>

#include "core/file.h"
#include "neap/error.h"
#include "neap/onnx.h"
#include "onnx/attach_loss.h"
#include "onnx/importer.h"
#include "onnx/limits.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

constexpr std::int64_t kOldestOpset = 13;
constexpr std::int64_t kNewestOpset = 21;

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

void check(const pb::ModelProto& model, const std::string& name) {
  const auto bad = [&](const std::string& what) { throw UserError(fmt::format("'{}': {}", name, what)); };
  std::int64_t opset = 0;
  for (const auto& import : model.opset_import()) {
    if (is_default_domain(import.domain())) opset = import.version();
  }
  if (model.graph().node_size() == 0 || opset == 0) bad("this is no ONNX model, or an empty one");
  if (opset < kOldestOpset || opset > kNewestOpset) {
    bad(fmt::format("it is of opset {}; {} to {} are read", opset, kOldestOpset, kNewestOpset));
  }
  if (model.functions_size() > 0) bad("functions of the model's own are not supported; export it with them inlined");
  if (model.graph().output_size() == 0) bad("it has no output");
}

std::set<std::string> initializer_names(const pb::GraphProto& graph) {
  std::set<std::string> out;
  for (const auto& t : graph.initializer()) out.insert(t.name());
  return out;
}

bool has_training_node(const pb::GraphProto& graph) {
  for (const auto& node : graph.node()) {
    if (node.op_type() == "Dropout" && node.input_size() > 2 && !node.input(2).empty()) return true;
    for (const auto& a : node.attribute()) {
      if (a.name() == "training_mode" && a.i() != 0) return true;
    }
  }
  return false;
}

}  // namespace

std::shared_ptr<const pb::ModelProto> parse_model(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() > static_cast<std::size_t>(INT32_MAX)) {
    throw UserError(fmt::format("'{}' is larger than 2 GiB; save its weights as external data", name));
  }
  const google::protobuf::LogSilencer quiet;  // what is wrong is said below, once
  auto model = std::make_shared<pb::ModelProto>();
  const auto size = static_cast<int>(bytes.size());
  google::protobuf::io::ArrayInputStream array(bytes.data(), size);
  google::protobuf::io::CodedInputStream in(&array);
  in.SetTotalBytesLimit(INT32_MAX);
  if (!model->ParseFromCodedStream(&in) || !in.ConsumedEntireMessage()) {
    throw UserError(fmt::format("'{}' is no ONNX file, or is cut short", name));
  }
  check(*model, name);
  return model;
}

std::shared_ptr<const pb::ModelProto> parse_model(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_model(file.bytes(), path.string());
}

OnnxModel::OnnxModel(const std::string& path) : OnnxModel(parse_model(std::filesystem::path(path)), path) {}

OnnxModel::OnnxModel(std::shared_ptr<const pb::ModelProto> model, const std::string& path)
    : path_(path), model_(std::move(model)), files_(std::make_shared<ExternalFiles>(path_)) {}

std::int64_t OnnxModel::batch() const {
  const std::set<std::string> known = initializer_names(model_->graph());
  for (const auto& input : model_->graph().input()) {
    const auto& shape = input.type().tensor_type().shape();
    if (known.contains(input.name()) || shape.dim_size() == 0) continue;
    if (shape.dim(0).dim_value() > 0) return shape.dim(0).dim_value();
  }
  return Model::batch();
}

namespace {

// A number for a dim that the file leaves open. The first axis is the batch; further ones are the sides of an image or
// the length of a sequence.
std::int64_t size_of(const pb::ValueInfoProto& input, int axis, const BuildRequest& r) {
  const auto& shape = input.type().tensor_type().shape();
  const auto& dim = shape.dim(axis);
  const bool is_fixed = dim.dim_value() > 0;
  if (axis == 0) {
    if (is_fixed && dim.dim_value() != r.batch) {
      throw UserError(fmt::format("input '{}' is made for batches of {}, not {}; export it with an open first axis",
                                  printable(input.name()), dim.dim_value(), r.batch));
    }
    return r.batch;
  }
  if (is_fixed) return dim.dim_value();
  const bool is_image = shape.dim_size() == 4;
  const std::int64_t size = is_image ? r.image : r.length;
  if (dim.dim_value() < 0) throw UserError(fmt::format("input '{}' has a negative dim", printable(input.name())));
  if (size <= 0) {
    throw UserError(fmt::format("input '{}' leaves its axis {} ({}) open; give {} N", printable(input.name()), axis,
                                dim.dim_param().empty() ? "?" : printable(dim.dim_param()),
                                is_image ? "--image" : "--length"));
  }
  return size;
}

}  // namespace

std::map<std::string, Shape> OnnxModel::input_shapes(const BuildRequest& request) const {
  const std::set<std::string> known = initializer_names(model_->graph());
  std::map<std::string, Shape> out;
  std::map<std::string, std::int64_t> symbols;
  for (const auto& input : model_->graph().input()) {
    if (known.contains(input.name())) continue;
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
      throw UserError(fmt::format("input '{}' is no tensor of known rank", printable(input.name())));
    }
    const auto& shape = input.type().tensor_type().shape();
    if (shape.dim_size() == 0) throw UserError(fmt::format("input '{}' has no batch axis", printable(input.name())));
    Shape here;
    for (int i = 0; i < shape.dim_size(); ++i) {
      const std::int64_t size = size_of(input, i, request);
      const std::string& symbol = shape.dim(i).dim_param();
      if (!symbol.empty() && symbols.try_emplace(symbol, size).first->second != size) {
        throw UserError(fmt::format("'{}' stands for {} and for {}", printable(symbol), symbols[symbol], size));
      }
      here.push_back(size);
    }
    try {
      check_size({DType::kF64, here});  // the widest
    } catch (const UserError& e) {
      throw UserError(fmt::format("input '{}' is {}", printable(input.name()), e.what()));
    }
    if (!out.emplace(input.name(), here).second) {
      throw UserError(fmt::format("two inputs have the name '{}'", printable(input.name())));
    }
  }
  if (out.empty()) throw UserError("the model has no inputs");
  return out;
}

void OnnxModel::build(Builder& g, const BuildRequest& request) const {
  try {
    ImportOptions options{.frozen_batch_norm = request.frozen_batch_norm};
    Importer importer(*model_, model_, *files_, g, options);
    importer.run(input_shapes(request));
    classes_ = attach_loss(*model_, importer, request);
  } catch (const UserError& e) {
    throw UserError(fmt::format("'{}': {}", path_.string(), e.what()));
  }
  g.graph() = find_patterns(std::move(g.graph()));
}

std::int64_t OnnxModel::bound(std::string_view input) const {
  if (input == kTargetInput) return classes_;
  // Forward through what leaves numbers as they are, to the tables that they index.
  std::set<std::string> same = {std::string(input)};
  std::map<std::string, const pb::TensorProto*> tables;
  for (const auto& t : model_->graph().initializer()) tables[t.name()] = &t;
  std::int64_t bound = 0;
  for (const auto& node : model_->graph().node()) {
    const std::string& op = node.op_type();
    const bool passes = op == "Cast" || op == "Identity" || op == "Unsqueeze" || op == "Squeeze" || op == "Reshape";
    if (passes && node.input_size() > 0 && node.output_size() > 0 && same.contains(node.input(0)))
      same.insert(node.output(0));
    if (op != "Gather" || node.input_size() < 2 || !same.contains(node.input(1))) continue;
    const auto table = tables.find(node.input(0));
    if (table == tables.end() || table->second->dims_size() == 0) continue;
    const std::int64_t rows = table->second->dims(0);
    bound = bound == 0 ? rows : std::min(bound, rows);
  }
  return bound;
}

std::vector<std::string> OnnxModel::notes() const {
  std::vector<std::string> out;
  if (!has_training_node(model_->graph())) {
    out.push_back(
        fmt::format("'{}' was exported for inference (nothing in it is in training mode): it is trained as it "
                    "is, without dropout and with batch norm as it stands",
                    path_.string()));
  }
  const auto is_narrow = [](const pb::TensorProto& t) {
    const auto type = dtype_of(t.data_type(), false);
    return type && is_float(*type) && *type != DType::kF32;
  };
  const auto& weights = model_->graph().initializer();
  if (std::any_of(weights.begin(), weights.end(), is_narrow)) {
    out.push_back(fmt::format("'{}' has weights of other float types: they are trained as f32", path_.string()));
  }
  return out;
}

void OnnxModel::save(const std::string& path, const BuildRequest& /*request*/, const WeightReader& weight) const {
  write_model(*model_, *files_, path, weight);
}

}  // namespace neap::onnx

namespace neap {

std::shared_ptr<const Model> load_onnx(const std::string& path) { return std::make_shared<onnx::OnnxModel>(path); }

}  // namespace neap
