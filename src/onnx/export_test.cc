// What is written reads as the same model, with the weights that were given.
#include <cstring>

#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

using neap::testing::contents;
using neap::testing::TempDir;

std::vector<float> floats_of(const pb::ModelProto& model, const std::string& name, const std::filesystem::path& path) {
  for (const auto& t : model.graph().initializer()) {
    if (t.name() != name) continue;
    ExternalFiles files(path);
    const Constant c = read_tensor(t, nullptr, &files, true);
    std::vector<float> out(c.data->size() / sizeof(float));
    std::memcpy(out.data(), c.data->data(), c.data->size());
    return out;
  }
  return {};
}

// Gives these weights and no others.
class Weights {
 public:
  explicit Weights(std::map<std::string, std::vector<float>> values) : values_(std::move(values)) {}
  WeightReader reader() const {
    return [this](std::string_view name) -> std::span<const std::byte> {
      const auto at = values_.find(std::string(name));
      return at == values_.end() ? std::span<const std::byte>() : std::as_bytes(std::span(at->second));
    };
  }

 private:
  std::map<std::string, std::vector<float>> values_;
};

Maker small() {
  Maker m;
  m.input("x", "batch 2").weight("w", {2, 2}).weight("b", {2}).ints("to", {-1, 2}).node("Gemm", "x w b", "g");
  m.node("Reshape", "g to", "y").output("y");
  m.proto().set_producer_name("someone");
  m.graph().mutable_node(0)->set_doc_string("kept");
  return m;
}

TEST(OnnxExport, StructureAndNamesStayWeightsAreReplaced) {
  const TempDir dir;
  Maker m = small();
  const Weights trained({{"w", {1, 2, 3, 4}}});
  OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, trained.reader());
  const auto out = parse_model(dir / "out.onnx");
  EXPECT_EQ(floats_of(*out, "w", dir / "out.onnx"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(floats_of(*out, "b", dir / "out.onnx"), floats_of(m.proto(), "b", "m.onnx"));
  pb::ModelProto same = *out;
  *same.mutable_graph()->mutable_initializer() = m.graph().initializer();
  EXPECT_EQ(same.SerializeAsString(), m.proto().SerializeAsString());
  EXPECT_FALSE(std::filesystem::exists(dir / "out.onnx.data"));
}

TEST(OnnxExport, SecondExportHasTheSameBytes) {
  const TempDir dir;
  Maker m = small();
  const Weights trained({{"w", {1, 2, 3, 4}}, {"b", {5, 6}}});
  OnnxModel(m.shared(), "m.onnx").save((dir / "a.onnx").string(), {}, trained.reader());
  OnnxModel((dir / "a.onnx").string()).save((dir / "b.onnx").string(), {}, trained.reader());
  EXPECT_TRUE(contents(dir / "a.onnx") == contents(dir / "b.onnx"));
}

TEST(OnnxExport, HalvesAreWrittenAsHalves) {
  const TempDir dir;
  for (const int type : {pb::TensorProto::FLOAT16, pb::TensorProto::BFLOAT16, pb::TensorProto::DOUBLE}) {
    Maker m = small();
    pb::TensorProto& w = *m.graph().mutable_initializer(0);
    w.set_data_type(type);
    w.set_raw_data(std::string(type == pb::TensorProto::DOUBLE ? 32 : 8, '\0'));
    const std::vector<float> values = {1, -0.5F, 1024, 0.125F};  // exact in all of them
    const Weights trained({{"w", values}});
    OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, trained.reader());
    const auto out = parse_model(dir / "out.onnx");
    EXPECT_EQ(out->graph().initializer(0).data_type(), type);
    EXPECT_EQ(floats_of(*out, "w", dir / "out.onnx"), values);
  }
}

TEST(OnnxExport, ValuesInFieldsBecomeRaw) {
  const TempDir dir;
  Maker m = small();
  pb::TensorProto& b = *m.graph().mutable_initializer(1);
  b.clear_raw_data();
  b.add_float_data(7);
  b.add_float_data(8);
  OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, Weights({}).reader());
  const auto out = parse_model(dir / "out.onnx");
  EXPECT_EQ(out->graph().initializer(1).float_data_size(), 0);
  EXPECT_EQ(floats_of(*out, "b", dir / "out.onnx"), (std::vector<float>{7, 8}));
}

// A model whose weight lies in weights.bin beside it.
std::filesystem::path write_external(const TempDir& dir, std::int64_t rows) {
  Maker m;
  m.input("x", "batch 16").weight("w", {16, rows}).weight("b", {rows}).node("Gemm", "x w b", "y").output("y");
  pb::TensorProto& w = *m.graph().mutable_initializer(0);
  dir.file("weights.bin", std::string(64, 'z') + w.raw_data());
  const std::string length = std::to_string(w.raw_data().size());
  w.clear_raw_data();
  w.set_data_location(pb::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"location", "weights.bin"}, {"offset", "64"}, {"length", length}}) {
    auto& entry = *w.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return dir.file("m.onnx", m.proto().SerializeAsString());
}

TEST(OnnxExport, ExternalDataStayExternal) {
  const TempDir dir;
  const auto path = write_external(dir, 64);
  const OnnxModel model(path.string());
  model.save((dir / "out.onnx").string(), {}, Weights({}).reader());
  const auto out = parse_model(dir / "out.onnx");
  EXPECT_EQ(out->graph().initializer(0).external_data(0).value(), "out.onnx.data");
  EXPECT_EQ(floats_of(*out, "w", dir / "out.onnx"), floats_of(*parse_model(path), "w", path));
  EXPECT_TRUE(out->graph().initializer(1).has_raw_data());  // too small to be worth a range
  const OnnxModel again((dir / "out.onnx").string());
  again.save((dir / "third.onnx").string(), {}, Weights({}).reader());
  EXPECT_TRUE(contents(dir / "out.onnx.data") == contents(dir / "third.onnx.data"));
}

// Saving over the file that the model was read from: its values are still mapped while the new ones are written.
TEST(OnnxExport, OverItself) {
  const TempDir dir;
  const auto path = write_external(dir, 64);
  const std::vector<float> before = floats_of(*parse_model(path), "w", path);
  OnnxModel((dir / "m.onnx").string()).save((dir / "m.onnx").string(), {}, Weights({}).reader());
  OnnxModel((dir / "m.onnx").string()).save((dir / "m.onnx").string(), {}, Weights({}).reader());
  EXPECT_EQ(floats_of(*parse_model(path), "w", path), before);
}

// The bias of the second layer was written as an Identity of the first one's, since both started at zero.
TEST(OnnxExport, WeightsSharedByAccidentGetValuesOfTheirOwn) {
  const TempDir dir;
  Maker m;
  m.input("x", "batch 2")
      .weight("w1", {2, 2})
      .weight("w2", {2, 2})
      .floats("b1", {2}, {0, 0})
      .node("Identity", "b1", "b2");
  m.node("Gemm", "x w1 b1", "h").node("Gemm", "h w2 b2", "y").output("y");
  const Weights trained({{"b1", {1, 2}}, {"b2", {3, 4}}});
  OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, trained.reader());
  const auto out = parse_model(dir / "out.onnx");
  EXPECT_EQ(floats_of(*out, "b1", dir / "out.onnx"), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats_of(*out, "b2", dir / "out.onnx"), (std::vector<float>{3, 4}));
  EXPECT_EQ(out->graph().node_size(), 2);
}

TEST(OnnxExport, TiedWeightsStayTied) {
  const TempDir dir;
  Maker m;
  m.input("x", "batch 2")
      .weight("w1", {2, 2})
      .node("Identity", "w1", "w2")
      .node("MatMul", "x w1", "h")
      .node("MatMul", "h w2", "y")
      .output("y");
  OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, Weights({{"w1", {1, 2, 3, 4}}}).reader());
  const auto out = parse_model(dir / "out.onnx");
  EXPECT_EQ(out->graph().node_size(), 3);
  EXPECT_EQ(out->graph().initializer_size(), 1);
}

TEST(OnnxExport, FailureLeavesTheOldFile) {
  const TempDir dir;
  dir.file("out.onnx", "precious");
  Maker m;
  m.input("x", "batch 512").weight("w", {512, 512}).node("MatMul", "x w", "y").output("y");
  const neap::testing::FileSizeLimit full(4096);
  EXPECT_NE(
      user_error([&] { OnnxModel(m.shared(), "m.onnx").save((dir / "out.onnx").string(), {}, Weights({}).reader()); }),
      "");
  EXPECT_EQ(contents(dir / "out.onnx"), "precious");
}

TEST(OnnxExport, FailureLeavesTheOldFileAndItsData) {
  const TempDir dir;
  const auto path = write_external(dir, 64);
  const OnnxModel model(path.string());
  model.save((dir / "out.onnx").string(), {}, Weights({}).reader());
  const std::string before = contents(dir / "out.onnx") + contents(dir / "out.onnx.data");
  const Weights trained({{"b", std::vector<float>(64, 1)}});
  {
    const neap::testing::FileSizeLimit full(2048);  // room for the model, none for its values
    EXPECT_NE(user_error([&] { model.save((dir / "out.onnx").string(), {}, trained.reader()); }), "");
  }
  EXPECT_TRUE(contents(dir / "out.onnx") + contents(dir / "out.onnx.data") == before);
  EXPECT_FALSE(std::filesystem::exists(dir / "out.onnx.data.2"));
  model.save((dir / "out.onnx").string(), {}, trained.reader());
  EXPECT_FALSE(std::filesystem::exists(dir / "out.onnx.data"));
  EXPECT_EQ(floats_of(*parse_model(dir / "out.onnx"), "w", dir / "out.onnx"), floats_of(*parse_model(path), "w", path));
}

TEST(OnnxExport, WeightsInTheLayoutOfTheFile) {
  const TempDir dir;
  Maker m;
  m.input("x", "batch 3 4 4").weight("k", {2, 3, 3, 3}).node("Conv", "x k", "y").output("y");
  const Graph g = import_plain(m);
  EXPECT_EQ(tensor_of(g, "k").data->size(), 54 * sizeof(float));  // as in the file; moved when training starts
}

}  // namespace
}  // namespace neap::onnx::testing
