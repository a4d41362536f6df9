#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "autodiff/autodiff.h"
#include "core/random.h"
#include "graph/op.h"
#include "neap/error.h"
#include "neap/recurrent.h"
#include "ops/evaluate.h"

namespace neap {
namespace {

using Make = RecurrentOutput (*)(Builder&, Value, std::int64_t, const RecurrentOptions&);
struct Family {
  const char* name;
  Make make;
};
const Family kFamilies[] = {{"lstm", lstm}, {"gru", gru}, {"rnn", rnn}};

HostTensor filled(const TensorType& type, std::uint64_t key) {
  HostTensor t(type);
  RandomStream random(key);
  for (std::int64_t i = 0; i < type.elements(); ++i) t.floats()[i] = static_cast<float>(random.uniform() - 0.5);
  return t;
}

// A model whose loss weighs every output and last state, with gradients of all parameters and of x.
struct Model {
  Builder g;
  RecurrentOutput out;
  Value x, loss;
  std::map<TensorId, Value> gradients;
  std::map<std::string, HostTensor> leaves;

  Model(const Family& family, std::int64_t steps, std::int64_t batch, std::int64_t input, std::int64_t hidden,
        RecurrentOptions options, bool has_state = false, bool has_lengths = false) {
    x = g.input("x", DType::kF32, {steps, batch, input});
    std::vector<TensorId> wrt = {x};
    if (has_state) {
      for (std::int64_t i = 0; i < options.layers * (options.bidirectional ? 2 : 1); ++i) {
        options.h0.push_back(g.input(fmt::format("h{}", i), DType::kF32, {batch, hidden}));
        options.c0.push_back(g.input(fmt::format("c{}", i), DType::kF32, {batch, hidden}));
      }
    }
    if (has_lengths) {
      options.lengths = g.input("lengths", DType::kI32, {batch});
      leaves["lengths"] = HostTensor({DType::kI32, {batch}});
      for (std::int64_t b = 0; b < batch; ++b) {
        leaves["lengths"].as<std::int32_t>()[b] = static_cast<std::int32_t>((b * 3 + 2) % (steps + 1));
      }
    }
    out = family.make(g, x, hidden, options);
    loss = weighted(out.y, "wy");
    for (std::size_t i = 0; i < out.h_n.size(); ++i) {
      loss = g("add", {loss, weighted(out.h_n[i], fmt::format("wh{}", i))});
    }
    for (std::size_t i = 0; i < out.c_n.size(); ++i) {
      loss = g("add", {loss, weighted(out.c_n[i], fmt::format("wc{}", i))});
    }
    for (const Tensor& t : g.graph().tensors) {
      if (t.producer || leaves.contains(t.name)) continue;
      leaves[t.name] = filled(t.type, hash_text(t.name));
      if (t.role == Role::kParameter || t.name[0] == 'h' || t.name[0] == 'c') wrt.push_back(*g.graph().find(t.name));
    }
    gradients = differentiate(g, loss, wrt);
    verify(g.graph());
  }

  Value weighted(Value y, const std::string& name) {
    const Value w = g.input(name, DType::kF32, g.shape(y));
    return g("sum_to", {g("mul", {y, w})}, {{"shape", Shape{}}});
  }

  // Bytes of the outputs, states and gradients, by name.
  std::map<std::string, std::vector<std::byte>> results() {
    const auto values = evaluate(g.graph(), leaves);
    std::map<std::string, std::vector<std::byte>> all;
    all["y"] = values[out.y.index].data;
    for (std::size_t i = 0; i < out.h_n.size(); ++i) all[fmt::format("h_n{}", i)] = values[out.h_n[i].index].data;
    for (std::size_t i = 0; i < out.c_n.size(); ++i) all[fmt::format("c_n{}", i)] = values[out.c_n[i].index].data;
    for (const auto& [id, gradient] : gradients) all["d." + g.graph().at(id).name] = values[gradient.index].data;
    return all;
  }

  double loss_at(const std::map<std::string, HostTensor>& changed) {
    return evaluate(g.graph(), changed, "ref")[loss.index].floats()[0];
  }

  int count(std::string_view op) {
    int n = 0;
    for (const Node& node : g.graph().nodes) n += node.op->name == op ? 1 : 0;
    return n;
  }
};

void expect_gradients_hold(Model& m) {
  const auto values = evaluate(m.g.graph(), m.leaves);
  for (const auto& [id, gradient] : m.gradients) {
    const std::string name = m.g.graph().at(id).name;
    const HostTensor& got = values[gradient.index];
    const std::int64_t n = got.type.elements();
    for (std::int64_t e = 0; e < n; e += std::max<std::int64_t>(1, n / 7)) {
      auto leaves = m.leaves;
      constexpr double kStep = 1e-2;
      const float x = leaves[name].floats()[e];
      leaves[name].floats()[e] = static_cast<float>(x + kStep);
      const double up = m.loss_at(leaves);
      leaves[name].floats()[e] = static_cast<float>(x - kStep);
      const double want = (up - m.loss_at(leaves)) / (2 * kStep);
      ASSERT_NEAR(got.floats()[e], want, 1e-2 * (1 + std::abs(want))) << name << " [" << e << "]";
    }
  }
}

TEST(RecurrentLayer, GradientsHoldAcrossChunksAndLayers) {
  for (const Family& family : kFamilies) {
    Model m(family, 5, 3, 4, 6, {.layers = 2, .chunk = 2}, true);
    EXPECT_EQ(m.gradients.size(), std::string(family.name) == "lstm" ? 13U : 11U) << family.name;
    expect_gradients_hold(m);
  }
}

TEST(RecurrentLayer, GradientsHoldInBothDirectionsAndWithLengths) {
  for (const Family& family : kFamilies) {
    Model both(family, 5, 3, 4, 5, {.layers = 2, .chunk = 3, .bidirectional = true});
    expect_gradients_hold(both);
    Model masked(family, 5, 4, 3, 5, {.layers = 1, .chunk = 2, .bidirectional = true}, true, true);
    expect_gradients_hold(masked);
  }
}

void expect_equal(const std::map<std::string, std::vector<std::byte>>& got,
                  const std::map<std::string, std::vector<std::byte>>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (const auto& [name, bytes] : want) EXPECT_TRUE(got.at(name) == bytes) << where << ": " << name;
}

TEST(RecurrentLayer, NoBitDependsOnTheChunk) {
  for (const Family& family : kFamilies) {
    for (const bool bidirectional : {false, true}) {
      for (const bool is_given : {false, true}) {
        const auto results = [&](std::int64_t chunk) {
          return Model(family, 13, 9, 37, 70, {.layers = 2, .chunk = chunk, .bidirectional = bidirectional}, is_given,
                       is_given)
              .results();
        };
        const auto whole = results(13);
        for (const std::int64_t chunk : {1, 2, 5, 16}) {
          expect_equal(results(chunk), whole, fmt::format("{} in chunks of {}", family.name, chunk));
        }
      }
    }
  }
}

// Gates made again, and pieces of a few steps: the same bits from less that is saved.
TEST(RecurrentLayer, NoBitDependsOnTheGatesOrTheUnrolling) {
  for (const Family& family : kFamilies) {
    for (const bool is_given : {false, true}) {
      RecurrentOptions options = {.layers = 2, .chunk = 4, .bidirectional = is_given};
      const auto results = [&] { return Model(family, 7, 3, 9, 34, options, is_given, is_given).results(); };
      const auto want = results();
      for (const std::int64_t unroll : {0, 1, 3}) {
        options.unroll = unroll;
        for (const bool keeps : {true, false}) {
          options.keep_gates = keeps;
          expect_equal(results(), want, fmt::format("{} unroll {} keeps {}", family.name, unroll, keeps));
        }
      }
    }
  }
}

TEST(RecurrentLayer, GradientsHoldWithGatesMadeAgain) {
  for (const Family& family : kFamilies) {
    Model m(family, 5, 3, 4, 6, {.layers = 2, .chunk = 2, .unroll = 2, .keep_gates = false}, true);
    expect_gradients_hold(m);
  }
}

TEST(RecurrentLayer, GatesAreReadByNobodyWhenTheyAreMadeAgain) {
  for (const bool keeps : {true, false}) {
    Model m({"lstm", lstm}, 8, 2, 3, 4, {.chunk = 4, .keep_gates = keeps});
    bool is_read = false;
    for (const Node& node : m.g.graph().nodes) {
      for (const TensorId id : node.inputs) is_read = is_read || (id && m.g.graph().at(id).name.ends_with("chunk.0:2"));
    }
    EXPECT_EQ(is_read, keeps);
  }
}

TEST(RecurrentLayer, NoBitDependsOnTheThreads) {
  const int threads = omp_get_max_threads();
  for (const Family& family : kFamilies) {
    Model m(family, 6, 11, 40, 100, {.layers = 2, .chunk = 4});
    const auto want = m.results();
    for (const int n : {1, 2, 3, 7}) {
      omp_set_num_threads(n);
      expect_equal(m.results(), want, fmt::format("{} on {} threads", family.name, n));
    }
    omp_set_num_threads(threads);
  }
}

// A row in a batch with lengths gives what it gives alone, cut to its length.
TEST(RecurrentLayer, RowsEndAtTheirLength) {
  for (const Family& family : kFamilies) {
    Model batch(family, 7, 3, 4, 5, {.chunk = 3, .bidirectional = true}, true, true);
    const auto values = evaluate(batch.g.graph(), batch.leaves);
    const HostTensor& y = values[batch.out.y.index];
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = batch.leaves.at("lengths").as<std::int32_t>()[row];
      if (length == 0) {
        for (std::int64_t t = 0; t < 7; ++t) ASSERT_EQ(y.floats()[(t * 3 + row) * 10], 0.0F);
        EXPECT_EQ(std::memcmp(values[batch.out.h_n[0].index].floats() + row * 5,
                              batch.leaves.at("h0").floats() + row * 5, 20),
                  0);
        continue;
      }
      Model alone(family, length, 1, 4, 5, {.chunk = 3, .bidirectional = true}, true);
      for (auto& [name, leaf] : alone.leaves) {
        if (name[0] == 'w' && name[1] != 'e') continue;  // weights of the loss
        const HostTensor& from = batch.leaves.at(name);
        if (name == "x") {
          for (std::int64_t t = 0; t < length; ++t) {
            std::copy_n(from.floats() + (t * 3 + row) * 4, 4, leaf.floats() + t * 4);
          }
        } else if (name[0] == 'h' || name[0] == 'c') {
          std::copy_n(from.floats() + row * 5, 5, leaf.floats());
        } else {
          leaf = from;
        }
      }
      const auto single = evaluate(alone.g.graph(), alone.leaves);
      const HostTensor& y_alone = single[alone.out.y.index];
      for (std::int64_t t = 0; t < 7; ++t) {
        for (std::int64_t u = 0; u < 10; ++u) {
          const float want = t < length ? y_alone.floats()[t * 10 + u] : 0.0F;
          ASSERT_EQ(y.floats()[(t * 3 + row) * 10 + u], want) << family.name << " row " << row << " time " << t;
        }
      }
      for (std::size_t d = 0; d < 2; ++d) {
        const float* last = values[batch.out.h_n[d].index].floats() + row * 5;
        EXPECT_EQ(std::memcmp(last, single[alone.out.h_n[d].index].floats(), 20), 0) << family.name << " " << d;
      }
    }
  }
}

TEST(RecurrentLayer, ParametersAreNamedAsInTorch) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {4, Dim::symbol("batch"), 3});
  const Builder::Scope scope(g, "encoder");
  const RecurrentOutput out = lstm(g, x, 5, {.layers = 2, .bidirectional = true});
  const auto type = [&](const std::string& name) { return g.type(g.graph().find("encoder." + name).value()).text(); };
  EXPECT_EQ(type("weight_ih_l0"), "f32[20,3]");
  EXPECT_EQ(type("weight_hh_l0_reverse"), "f32[20,5]");
  EXPECT_EQ(type("weight_ih_l1"), "f32[20,10]");
  EXPECT_EQ(type("bias_hh_l1_reverse"), "f32[20]");
  EXPECT_EQ(g.shape(out.y).text(), "[4,batch,10]");
  EXPECT_EQ(out.h_n.size(), 4U);
  EXPECT_EQ(g.graph().at(g.graph().find("encoder.bias_ih_l0").value()).init, Init::uniform(1 / std::sqrt(5.0)));
}

// A chunk of one layer goes straight into the next; only the top is joined, only x is cut.
TEST(RecurrentLayer, LayersPassChunksOn) {
  Model m({"lstm", lstm}, 12, 2, 3, 4, {.layers = 3, .chunk = 4});
  EXPECT_EQ(m.count("lstm_chunk"), 9);
  EXPECT_EQ(m.count("lstm_chunk_grad"), 9);
  EXPECT_EQ(m.count("concat"), 1);
  EXPECT_EQ(m.count("slice_grad"), 3);
}

// The wavefront: a chunk goes up through all layers before the next one begins, and comes down again in the opposite
// order. What a layer hands to the one above is read by the very next chunk. (NoBitDependsOnTheChunk has the same bits
// from layer after layer: there the whole sequence is one chunk.)
TEST(RecurrentLayer, ChunksRunThroughAllLayersBeforeTheNext) {
  for (const Family& family : kFamilies) {
    Model m(family, 12, 2, 3, 4, {.layers = 3, .chunk = 4});
    std::vector<std::pair<std::string, std::int64_t>> up, down, want;
    TensorId handed;
    for (const Node& node : m.g.graph().nodes) {
      const std::pair<std::string, std::int64_t> which = {node.layer, node.attrs.integer("start", 0)};
      if (node.op->name.ends_with("_chunk_grad")) down.push_back(which);
      if (!node.op->name.ends_with("_chunk")) continue;
      if (node.layer != "l0") {
        EXPECT_EQ(node.inputs[0], handed) << node.layer;
      }
      handed = node.outputs[0];
      up.push_back(which);
    }
    for (const std::int64_t start : {0, 4, 8}) {
      for (const char* layer : {"l0", "l1", "l2"}) want.emplace_back(layer, start);
    }
    EXPECT_EQ(up, want) << family.name;
    std::reverse(want.begin(), want.end());
    EXPECT_EQ(down, want) << family.name;
  }
}

// Weight gradients are summed by the chunks themselves, in place, and the state is saved as a view.
TEST(RecurrentLayer, BackwardAddsNothingByItself) {
  Model m({"lstm", lstm}, 12, 2, 3, 4, {.layers = 2, .chunk = 4});
  for (const Node& node : m.g.graph().nodes) {
    const bool is_weight_sum = node.op->name == "add" && node.phase == Phase::kBackward;
    EXPECT_FALSE(is_weight_sum) << node.name;
    if (node.op->name != "lstm_chunk_grad" && node.phase == Phase::kBackward) {
      for (const TensorId id : node.inputs) {
        const bool is_state =
            id && m.g.graph().at(id).name.find("chunk") != std::string::npos && m.g.graph().at(id).name.ends_with(":1");
        EXPECT_FALSE(is_state) << node.name << " reads " << m.g.graph().at(id).name;
      }
    }
  }
}

// What stands between the layers sees every chunk but those of the top.
TEST(RecurrentLayer, BetweenLayers) {
  int calls = 0;
  RecurrentOptions options = {.layers = 2, .chunk = 2};
  options.between = [&calls](Builder& g, Value chunk, std::int64_t layer) {
    EXPECT_EQ(layer, 0);
    ++calls;
    return g("mul", {chunk, g.scalar(0.5)});
  };
  Model m({"gru", gru}, 5, 2, 3, 4, options);
  EXPECT_EQ(calls, 3);
  expect_gradients_hold(m);
}

TEST(RecurrentLayer, RefusesWhatCannotBeBuilt) {
  Builder g;
  const Value ragged = g.input("ragged", DType::kF32, {Dim::symbol("time"), 2, 3});
  const Value flat = g.input("flat", DType::kF32, {2, 3});
  const Value x = g.input("x", DType::kF32, {4, 2, 3});
  EXPECT_THROW(lstm(g, ragged, 5), UserError);
  EXPECT_THROW(lstm(g, flat, 5), UserError);
  EXPECT_THROW(lstm(g, x, 0), UserError);
  for (const Family& family : kFamilies) {
    const Value none = g.input(std::string("none ") + family.name, DType::kF32, {0, 2, 3});
    EXPECT_THROW(family.make(g, none, 5, {}), UserError) << family.name;
  }
  EXPECT_THROW(lstm(g, x, 5, {.layers = 0}), UserError);
  EXPECT_THROW(lstm(g, x, 5, {.chunk = 0}), UserError);
  EXPECT_THROW(lstm(g, x, 5, {.unroll = -1}), UserError);
  EXPECT_THROW(lstm(g, x, 5, {.layers = 2, .h0 = {x}}), UserError);
  EXPECT_THROW(lstm(g, Values{}, 5), UserError);
  EXPECT_THROW(rnn(g, x, 5, {.activation = "sine"}), UserError);
}

}  // namespace
}  // namespace neap
