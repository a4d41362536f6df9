// LSTM, GRU and RNN with all their options: in chunks and step by step, which must agree.
#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

struct Layer {
  std::string op = "LSTM";
  std::string direction = "forward";
  bool batch_first = false;
  bool has_bias = true;
  bool has_lengths = false;
  bool has_state = false;
  std::string peepholes;  // the input's name
  std::int64_t steps = 5;
  Attributes more = {};
};

std::int64_t gates(const Layer& l) { return l.op == "LSTM" ? 4 : l.op == "GRU" ? 3 : 1; }

// Input 3, hidden 4, batch 2.
Maker model(const Layer& l) {
  Maker m;
  const std::int64_t ways = l.direction == "bidirectional" ? 2 : 1;
  const std::string steps = std::to_string(l.steps);
  m.input("x", l.batch_first ? "2 " + steps + " 3" : steps + " 2 3");
  m.weight("w", {ways, gates(l) * 4, 3}).weight("r", {ways, gates(l) * 4, 4}).weight("b", {ways, gates(l) * 8});
  m.weight("p", {ways, 12}).floats("zero_p", {ways, 12}, std::vector<float>(static_cast<std::size_t>(ways) * 12, 0));
  const std::string dims = l.batch_first ? "2 " + std::to_string(ways) + " 4" : std::to_string(ways) + " 2 4";
  if (l.has_state) m.input("h0", dims).input("c0", dims);
  if (l.has_lengths)
    m.node("Constant", "", "lengths", {{"value_ints", Ints{l.steps, 2}}}).node("Cast", "lengths", "lens", {{"to", 6}});
  std::string inputs = std::string("x w r ") + (l.has_bias ? "b " : "_ ") + (l.has_lengths ? "lens " : "_ ") +
                       (l.has_state ? "h0 " : "_ ");
  if (l.op == "LSTM") inputs += (l.has_state ? "c0 " : "_ ") + (l.peepholes.empty() ? "_" : l.peepholes);
  Attributes attributes = {{"hidden_size", 4}, {"direction", l.direction}, {"layout", l.batch_first ? 1 : 0}};
  attributes.insert(attributes.end(), l.more.begin(), l.more.end());
  m.node(l.op, inputs, l.op == "LSTM" ? "y h c" : "y h", attributes).output(l.op == "LSTM" ? "y h c" : "y h");
  return m;
}

bool is_chunked(const Graph& g) { return count(g, "lstm_chunk") + count(g, "gru_chunk") + count(g, "rnn_chunk") > 0; }

// A bound that no value reaches sends the layer the other way.
void expect_both_ways_agree(Layer l) {
  if (l.op == "GRU") l.more.push_back({"linear_before_reset", 1});
  Maker m = model(l);
  const Graph chunks = import_plain(m);
  EXPECT_TRUE(is_chunked(chunks));
  l.more.push_back({"clip", 1e6});
  Maker other = model(l);
  const Graph steps = import_plain(other);
  EXPECT_FALSE(is_chunked(steps));
  expect_same_results(chunks, steps);
}

class EachFamily : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(OnnxRecurrent, EachFamily, ::testing::Values("LSTM", "GRU", "RNN"));

TEST_P(EachFamily, ChunksAndStepsAgree) {
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    for (const bool batch_first : {false, true}) {
      SCOPED_TRACE(direction + std::string(batch_first ? ", batch first" : ""));
      expect_both_ways_agree({.op = GetParam(), .direction = direction, .batch_first = batch_first});
      expect_both_ways_agree({.op = GetParam(),
                              .direction = direction,
                              .batch_first = batch_first,
                              .has_lengths = true,
                              .has_state = true});
    }
  }
}

TEST_P(EachFamily, WithoutBias) { expect_both_ways_agree({.op = GetParam(), .has_bias = false}); }
TEST_P(EachFamily, OneStep) { expect_both_ways_agree({.op = GetParam(), .steps = 1}); }

TEST_P(EachFamily, SeveralChunks) {
  for (const char* direction : {"forward", "reverse"}) {
    expect_both_ways_agree(
        {.op = GetParam(), .direction = direction, .has_lengths = true, .has_state = true, .steps = 37});
  }
}

TEST_P(EachFamily, RowsThatEndedGiveZerosAndKeepTheirState) {
  for (const bool clips : {false, true}) {
    Layer l{.op = GetParam(), .has_lengths = true};
    if (GetParam() == "GRU") l.more.push_back({"linear_before_reset", 1});
    if (clips) l.more.push_back({"clip", 1e6});
    Maker m = model(l);
    const std::vector<HostTensor> out = results(import_plain(m));
    const float* y = out[0].floats();  // [5, 1, 2, 4]
    const float* h = out[1].floats();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(y[2 * 8 + 4 + i], 0);
      EXPECT_EQ(h[4 + i], y[1 * 8 + 4 + i]);  // the second row has two steps
      EXPECT_EQ(h[i], y[4 * 8 + i]);
    }
  }
}

TEST_P(EachFamily, BadSizesAreErrors) {
  const auto refused = [&](auto change) {
    Maker m = model({.op = GetParam(), .has_lengths = true, .has_state = true});
    change(m);
    expect_user_error([&] { import_plain(m); }, {GetParam() + "_y"});
  };
  const auto set_dims = [](Maker& m, int i, const Ints& dims) {
    pb::TensorProto& t = *m.graph().mutable_initializer(i);
    t.clear_dims();
    for (const std::int64_t d : dims) t.add_dims(d);
  };
  const std::int64_t g = gates({.op = GetParam()});
  refused([&](Maker& m) { set_dims(m, 0, {1, g * 3, 4}); });  // W for another hidden size
  refused([&](Maker& m) { set_dims(m, 0, {g * 4, 1, 3}); });  // directions that are not there
  refused([&](Maker& m) { set_dims(m, 1, {2, g * 2, 4}); });  // R for another number of directions
  refused([&](Maker& m) { set_dims(m, 2, {8, g}); });         // B
  refused([&](Maker& m) {
    m.graph().mutable_input(1)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2)->set_dim_value(
        5);
  });
  refused([&](Maker& m) { m.graph().mutable_node(2)->set_input(4, "x"); });  // lengths of rank 3
  refused([&](Maker& m) { m.graph().mutable_node(2)->mutable_attribute(1)->set_s("sideways"); });
}

// Peepholes, step by step only.
TEST(OnnxRecurrent, PeepholesOfZeroChangeNothing) {
  Maker with = model({.peepholes = "zero_p"});
  Maker without = model({});
  EXPECT_FALSE(is_chunked(import_plain(with)));
  expect_same_results(import_plain(without), import_plain(with));
  Maker other = model({.peepholes = "p"});
  const auto a = results(import_plain(other));
  const auto b = results(import_plain(without));
  EXPECT_NE(a[0].data, b[0].data);
}

TEST(OnnxRecurrent, ClipBoundsWhatGoesIntoTheFunctions) {
  Maker m = model({.op = "RNN", .more = {{"clip", 0.0}}});
  const HostTensor y = results(import_plain(m))[0];
  for (std::int64_t i = 0; i < y.type.elements(); ++i) EXPECT_EQ(y.floats()[i], 0) << i;
}

TEST(OnnxRecurrent, ResetBeforeAndAfterTheProductDiffer) {
  const auto with = [](std::int64_t before, std::int64_t steps) {
    Maker m = model({.op = "GRU", .has_bias = false, .steps = steps, .more = {{"linear_before_reset", before}}});
    return results(import_plain(m))[1];
  };
  EXPECT_NE(with(0, 3).data, with(1, 3).data);
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(with(0, 1).floats()[i], with(1, 1).floats()[i], 1e-6);  // from a state of zero
}

TEST(OnnxRecurrent, InputAndForgetGateCoupled) {
  Maker m = model({.more = {{"input_forget", 1}}});
  Maker plain = model({});
  EXPECT_NE(results(import_plain(m))[0].data, results(import_plain(plain))[0].data);
}

TEST(OnnxRecurrent, OtherFunctions) {
  const Layer relu{.op = "RNN", .more = {{"activations", Words{"Relu"}}}};
  expect_both_ways_agree(relu);
  // tanh by other names
  for (const Attributes& more : {Attributes{
           {"activations", Words{"ScaledTanh"}}, {"activation_alpha", Reals{1}}, {"activation_beta", Reals{1}}}}) {
    Maker m = model({.op = "RNN", .more = more});
    Maker plain = model({.op = "RNN"});
    EXPECT_FALSE(is_chunked(import_plain(m)));
    expect_same_results(import_plain(plain), import_plain(m));
  }
  for (const char* name :
       {"Affine", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "Sigmoid"}) {
    Maker m = model({.op = "RNN", .more = {{"activations", Words{name}}}});
    EXPECT_EQ(results(import_plain(m)).size(), 2U) << name;
  }
}

TEST(OnnxRecurrent, BadFunctionsAreErrors) {
  Maker unknown = model({.op = "RNN", .more = {{"activations", Words{"Sine"}}}});
  expect_user_error([&] { import_plain(unknown); }, {"RNN_y", "'Sine'"});
  Maker few = model({.more = {{"activations", Words{"Tanh"}}}});
  expect_user_error([&] { import_plain(few); }, {"LSTM_y", "1 activations", "3"});
}

// A length that a few bytes can ask for.
TEST(OnnxRecurrent, EndlessSequencesAreRefused) {
  Maker m;
  m.input("x", "batch 3").ints("to", {1 << 28, 1, 3}).number("one", 1).weight("w", {1, 16, 3}).weight("r", {1, 16, 4});
  m.node("Expand", "one to", "long").node("LSTM", "long w r", "_ h").node("Add", "x h", "y").output("y");
  expect_user_error([&] { import_plain(m); }, {"LSTM_"});
}

}  // namespace
}  // namespace neap::onnx::testing
