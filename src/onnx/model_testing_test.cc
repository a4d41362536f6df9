#include "onnx/model_testing.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "core/random.h"
#include "graph/op.h"
#include "train/state.h"

namespace neap::onnx::testing {
namespace {

Words words(const std::string& text) {
  std::istringstream in(text);
  Words out;
  for (std::string word; in >> word;) out.push_back(word == "_" ? "" : word);
  return out;
}

struct SetValue {
  pb::AttributeProto& a;
  using Proto = pb::AttributeProto;
  void operator()(std::int64_t v) const { a.set_type(Proto::INT), a.set_i(v); }
  void operator()(double v) const { a.set_type(Proto::FLOAT), a.set_f(static_cast<float>(v)); }
  void operator()(const std::string& v) const { a.set_type(Proto::STRING), a.set_s(v); }
  void operator()(const Ints& v) const { a.set_type(Proto::INTS), a.mutable_ints()->Add(v.begin(), v.end()); }
  void operator()(const Reals& v) const { a.set_type(Proto::FLOATS), a.mutable_floats()->Add(v.begin(), v.end()); }
  void operator()(const pb::GraphProto& v) const { a.set_type(Proto::GRAPH), *a.mutable_g() = v; }
  void operator()(const pb::TensorProto& v) const { a.set_type(Proto::TENSOR), *a.mutable_t() = v; }
  void operator()(const Words& v) const {
    a.set_type(Proto::STRINGS);
    for (const std::string& word : v) a.add_strings(word);
  }
};

template <class T>
pb::TensorProto raw_tensor(const std::string& name, const Ints& dims, const std::vector<T>& values, int type) {
  pb::TensorProto t;
  t.set_name(name);
  t.set_data_type(type);
  t.mutable_dims()->Add(dims.begin(), dims.end());
  t.set_raw_data(values.data(), values.size() * sizeof(T));
  return t;
}

HostTensor made_up(const TensorType& type, const std::string& name) {
  HostTensor out(type);
  std::uint64_t state = hash_text(name);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto top = static_cast<std::uint32_t>(state >> 32U);
    const auto small = static_cast<std::int64_t>(top % 3);
    switch (type.dtype) {
      case DType::kF32: out.floats()[i] = static_cast<float>(static_cast<double>(top) / 2147483648.0 - 1); break;
      case DType::kI64: out.as<std::int64_t>()[i] = small; break;
      case DType::kI32: out.as<std::int32_t>()[i] = static_cast<std::int32_t>(small); break;
      case DType::kBool: out.as<bool>()[i] = small != 0; break;
      default: break;
    }
  }
  return out;
}

}  // namespace

pb::TensorProto tensor(const std::string& name, const Ints& dims, const std::vector<float>& values) {
  return raw_tensor(name, dims, values, pb::TensorProto::FLOAT);
}

pb::TensorProto int_tensor(const std::string& name, const Ints& dims, const Ints& values) {
  return raw_tensor(name, dims, values, pb::TensorProto::INT64);
}

Maker::Maker(int opset) {
  model_->set_ir_version(8);
  model_->add_opset_import()->set_version(opset);
  graph().set_name("test");
}

Maker& Maker::input(const std::string& name, const std::string& dims, int type) {
  pb::ValueInfoProto& input = *graph().add_input();
  input.set_name(name);
  auto& t = *input.mutable_type()->mutable_tensor_type();
  t.set_elem_type(type);
  t.mutable_shape();
  for (const std::string& word : words(dims)) {
    auto& dim = *t.mutable_shape()->add_dim();
    const bool is_number = word.find_first_not_of("-0123456789") == std::string::npos;
    if (is_number) {
      dim.set_dim_value(std::stoll(word));
    } else {
      dim.set_dim_param(word);
    }
  }
  return *this;
}

Maker& Maker::output(const std::string& names) {
  for (const std::string& name : words(names)) graph().add_output()->set_name(name);
  return *this;
}

Maker& Maker::weight(const std::string& name, const Ints& dims) {
  HostTensor random = made_up({DType::kF32, Shape::of(dims)}, name);
  for (std::int64_t i = 0; i < random.type.elements(); ++i) random.floats()[i] /= 2;
  return floats(name, dims, {random.floats(), random.floats() + random.type.elements()});
}

Maker& Maker::floats(const std::string& name, const Ints& dims, const std::vector<float>& values) {
  return add(tensor(name, dims, values));
}

Maker& Maker::ints(const std::string& name, const Ints& values) {
  return add(int_tensor(name, {static_cast<std::int64_t>(values.size())}, values));
}

Maker& Maker::integer(const std::string& name, std::int64_t value) { return add(int_tensor(name, {}, {value})); }

Maker& Maker::truth(const std::string& name, bool value) {
  return add(raw_tensor<char>(name, {}, {static_cast<char>(value)}, pb::TensorProto::BOOL));
}

Maker& Maker::add(const pb::TensorProto& tensor) {
  *graph().add_initializer() = tensor;
  return *this;
}

Maker& Maker::node(const std::string& op, const std::string& inputs, const std::string& outputs,
                   const Attributes& attributes) {
  pb::NodeProto& node = *graph().add_node();
  node.set_op_type(op);
  for (const std::string& name : words(inputs)) node.add_input(name);
  for (const std::string& name : words(outputs)) node.add_output(name);
  node.set_name(op + "_" + (node.output_size() > 0 ? node.output(0) : ""));
  for (const Attribute& attribute : attributes) {
    pb::AttributeProto& a = *node.add_attribute();
    a.set_name(attribute.name);
    std::visit(SetValue{a}, attribute.value);
  }
  return *this;
}

Graph import_plain(Maker& model, const ImportOptions& options, Mode mode) {
  std::map<std::string, Shape> shapes;
  for (const auto& input : model.graph().input()) {
    Shape& shape = shapes[input.name()];
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      shape.push_back(dim.dim_param() == "time" ? 3 : dim.dim_param().empty() ? dim.dim_value() : 2);
    }
  }
  Builder g(mode);
  ExternalFiles files("model.onnx");
  Importer importer(model.proto(), model.shared(), files, g, options);
  importer.run(shapes);
  for (const auto& output : model.graph().output()) g.output(output.name(), importer.result(output.name()));
  verify(g.graph());
  return g.take();
}

Graph build(Maker& model, const BuildRequest& request) {
  Builder g(request.mode);
  OnnxModel(model.shared(), "model.onnx").build(g, request);
  verify(g.graph());
  return g.take();
}

int count(const Graph& graph, const std::string& op) {
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op->name == op; }));
}

std::string ops(const Graph& graph) {
  std::string out;
  for (const Node& n : graph.nodes) out += (out.empty() ? "" : " ") + std::string(n.op->name);
  return out;
}

const Tensor& tensor_of(const Graph& graph, const std::string& name) {
  const auto id = graph.find(name);
  if (!id) throw std::runtime_error("the graph has no tensor '" + name + "'");
  return graph.at(*id);
}

std::vector<HostTensor> results(const Graph& graph, const std::map<std::string, HostTensor>& given) {
  std::map<std::string, HostTensor> leaves = given;
  for (const Tensor& t : graph.tensors) {
    if (leaves.contains(t.name)) continue;
    if (t.role == Role::kInput) leaves[t.name] = made_up(t.type, t.name);
    if (t.outside_axes.empty() || !t.data) continue;
    leaves[t.name].type = t.type;
    leaves[t.name].data = from_outside(t, t.data->data());
  }
  const std::vector<HostTensor> all = evaluate(graph, leaves);
  std::vector<HostTensor> out;
  for (const auto& [name, id] : graph.outputs) out.push_back(all[id.index]);
  return out;
}

void expect_same_results(const Graph& a, const Graph& b, double tolerance) {
  const std::vector<HostTensor> x = results(a);
  const std::vector<HostTensor> y = results(b);
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i].type.text(), y[i].type.text());
    if (x[i].type.dtype != DType::kF32) {
      EXPECT_TRUE(x[i].data == y[i].data);
      continue;
    }
    for (std::int64_t k = 0; k < x[i].type.elements(); ++k) {
      const double want = x[i].floats()[k];
      ASSERT_TRUE(std::isfinite(want)) << a.outputs[i].first << '[' << k << ']';
      ASSERT_NEAR(y[i].floats()[k], want, tolerance * (1 + std::abs(want))) << a.outputs[i].first << '[' << k << ']';
    }
  }
}

}  // namespace neap::onnx::testing
