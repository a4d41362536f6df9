// For tests: ONNX models made in code, and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/file_testing.h"
#include "graph/graph.h"
#include "onnx/importer.h"
#include "onnx/onnx_model.h"
#include "ops/evaluate.h"

namespace neap::onnx::testing {

using neap::testing::expect_user_error;
using neap::testing::user_error;

using Reals = std::vector<double>;
using Words = std::vector<std::string>;
struct Attribute {
  std::string name;
  std::variant<std::int64_t, double, std::string, Ints, Reals, Words, pb::GraphProto, pb::TensorProto> value;
};
using Attributes = std::vector<Attribute>;

pb::TensorProto tensor(const std::string& name, const Ints& dims, const std::vector<float>& values);
pb::TensorProto int_tensor(const std::string& name, const Ints& dims, const Ints& values);

// Names are words in one text; "_" stands for one that is left out.
class Maker {
 public:
  explicit Maker(int opset = 17);

  // Dims are words in one text: numbers, or symbols that stay open.
  Maker& input(const std::string& name, const std::string& dims, int type = pb::TensorProto::FLOAT);
  Maker& output(const std::string& names);
  Maker& weight(const std::string& name, const Ints& dims);  // random in [-0.5, 0.5), different for each name
  Maker& floats(const std::string& name, const Ints& dims, const std::vector<float>& values);
  Maker& number(const std::string& name, float value) { return floats(name, {}, {value}); }
  Maker& ints(const std::string& name, const Ints& values);
  Maker& integer(const std::string& name, std::int64_t value);
  Maker& truth(const std::string& name, bool value);
  Maker& add(const pb::TensorProto& tensor);
  Maker& node(const std::string& op, const std::string& inputs, const std::string& outputs,
              const Attributes& attributes = {});

  pb::ModelProto& proto() { return *model_; }
  pb::GraphProto& graph() { return *model_->mutable_graph(); }
  std::shared_ptr<const pb::ModelProto> shared() const { return model_; }

 private:
  std::shared_ptr<pb::ModelProto> model_ = std::make_shared<pb::ModelProto>();
};

// The importer alone: no patterns, no loss, the file's outputs under their names. Symbols are 2, "time" is 3.
Graph import_plain(Maker& model, const ImportOptions& options = {}, Mode mode = Mode::kTraining);
// As training builds it.
Graph build(Maker& model, const BuildRequest& request = {.batch = 2});

int count(const Graph& graph, const std::string& op);
std::string ops(const Graph& graph);  // of all nodes, in their order
const Tensor& tensor_of(const Graph& graph, const std::string& name);

// The outputs for made-up inputs: floats in [-1, 1) that depend on the input's name, integers in [0, 3).
std::vector<HostTensor> results(const Graph& graph, const std::map<std::string, HostTensor>& given = {});
void expect_same_results(const Graph& a, const Graph& b, double tolerance = 1e-5);

}  // namespace neap::onnx::testing
