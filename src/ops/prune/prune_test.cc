#include "ops/prune/prune.h"

#include <cmath>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

HostTensor pruned(const HostTensor& weight, Attrs attrs) {
  return run_op({.op = "prune", .inputs = {weight.type}, .attrs = std::move(attrs), .given = {{0, weight}}})[0];
}

// Every group has as many as it should, each at least as large as every one that went; what stays keeps its bits.
void expect_pattern(const HostTensor& before, const HostTensor& after, std::int64_t keep, std::int64_t of,
                    std::int64_t in, std::int64_t inner) {
  const std::int64_t outer = before.type.elements() / in / inner;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t g = 0; g < in / of; ++g) {
      for (std::int64_t k = 0; k < inner; ++k) {
        std::int64_t stay = 0;
        float least = INFINITY, most = 0;
        for (std::int64_t i = 0; i < of; ++i) {
          const std::int64_t at = (o * in + g * of + i) * inner + k;
          const float was = before.floats()[at];
          const float is = after.floats()[at];
          if (is != 0) {
            EXPECT_EQ(is, was);
          }
          stay += is != 0 ? 1 : 0;
          if (is != 0) least = std::min(least, std::abs(was));
          if (is == 0) most = std::max(most, std::abs(was));
        }
        EXPECT_EQ(stay, keep);
        EXPECT_GE(least, most);
      }
    }
  }
}

TEST(Prune, KeepsTheLargestOfEveryGroup) {
  const HostTensor w = random_tensor(f32({6, 3, 16}), 1);
  for (const auto& [keep, of] : {std::pair{2, 4}, {4, 8}, {1, 4}, {3, 8}, {1, 2}}) {
    const HostTensor after = pruned(w, {{"keep", std::int64_t{keep}}, {"of", std::int64_t{of}}});
    expect_pattern(w, after, keep, of, 16, 1);
  }
  const HostTensor t = random_tensor(f32({16, 5}), 2);
  expect_pattern(t, pruned(t, {{"keep", std::int64_t{2}}, {"of", std::int64_t{4}}, {"axis", std::int64_t{0}}}), 2, 4,
                 16, 5);
}

TEST(Prune, TakesAShareOfTheSmallest) {
  const HostTensor w = random_tensor(f32({10, 10}), 3);
  for (const double share : {0.1, 0.5, 0.9}) {
    const HostTensor after = pruned(w, {{"share", share}});
    float least = INFINITY, most = 0;
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
      const bool stays = after.floats()[i] != 0;
      zeros += stays ? 0 : 1;
      (stays ? least : most) =
          stays ? std::min(least, std::abs(w.floats()[i])) : std::max(most, std::abs(w.floats()[i]));
    }
    EXPECT_EQ(zeros, std::lround(share * 100));
    EXPECT_GT(least, most);
  }
}

TEST(Prune, OfEqualsTheFirstStay) {
  HostTensor w(f32({8}));
  std::fill_n(w.floats(), 8, 1.0F);
  const HostTensor pattern = pruned(w, {{"keep", std::int64_t{1}}, {"of", std::int64_t{4}}});
  const HostTensor share = pruned(w, {{"share", 0.75}});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(pattern.floats()[i], i % 4 == 0 ? 1 : 0);
    EXPECT_EQ(share.floats()[i], i < 2 ? 1 : 0);
  }
}

// By groups along each axis, by a share; of numbers that are all different, and of few.
TEST(Prune, KernelsAgree) {
  HostTensor few = random_tensor(f32({40, 24, 30}), 6);
  for (std::int64_t i = 0; i < few.type.elements(); ++i) few.floats()[i] = std::round(3 * few.floats()[i]);
  for (const HostTensor& w : {random_tensor(f32({40, 24, 30}), 7), random_tensor(f32({7, 8, 3}), 8), few}) {
    const auto check = [&](Attrs attrs) {
      check_kernels({.op = "prune", .inputs = {w.type}, .attrs = std::move(attrs), .given = {{0, w}}, .tolerance = 0});
    };
    for (const double share : {0.01, 0.5, 0.9}) check({{"share", share}});
    check({{"keep", std::int64_t{2}}, {"of", std::int64_t{4}}, {"axis", std::int64_t{1}}});
    check({{"keep", std::int64_t{3}}, {"of", std::int64_t{8}}, {"axis", std::int64_t{1}}});
  }
}

// On CUDA, where there is one.
void check_update(const Graph& graph, const std::map<std::string, HostTensor>& before,
                  const std::vector<HostTensor>& after) {
  if (check_node_on_cuda == nullptr) return;
  const Node& node = graph.nodes.at(0);
  NodeCase n{.call = call_of(graph, node), .what = "prune_update"};
  for (const TensorId id : node.inputs) n.inputs.push_back(&before.at(graph.at(id).name));
  for (const std::uint8_t i : node.op->mutates) n.want.push_back(&after[node.inputs[i].index]);
  check_node_on_cuda(n);
}

// In its first step it settles the mask, later it holds to it, whatever the magnitudes have become; before, and in
// parts of a batch that update nothing, it leaves everything alone.
TEST(Prune, HoldsTheMaskThroughUpdates) {
  Graph graph;
  const TensorId w = graph.add({.name = "w", .type = f32({2, 8}), .role = Role::kParameter});
  const TensorId mask = graph.add({.name = "mask", .type = {DType::kU8, {2}}, .role = Role::kOptimizer});
  const TensorId key = graph.add({.name = "key", .type = {DType::kU64, {3}}, .role = Role::kInput});
  const TensorId hyper = graph.add({.name = "hyper", .type = f32({8}), .role = Role::kInput});
  graph.append({.op = find_op("prune_update"),
                .name = "u",
                .inputs = {w, mask, key, hyper},
                .attrs = {{"keep", std::int64_t{2}}, {"of", std::int64_t{4}}, {"from", std::int64_t{3}}}});
  std::map<std::string, HostTensor> values = {{"w", random_tensor(f32({2, 8}), 4)},
                                              {"mask", HostTensor({DType::kU8, {2}})},
                                              {"key", HostTensor({DType::kU64, {3}})},
                                              {"hyper", HostTensor(f32({8}))}};
  const auto step = [&](std::uint64_t number, float scale) {
    values["key"].as<std::uint64_t>()[1] = number;
    values["hyper"].floats()[7] = scale;
    auto all = evaluate(graph, values);
    check_update(graph, values, all);
    values["w"] = all[w.index];
    values["mask"] = all[mask.index];
  };
  const HostTensor dense = values["w"];
  step(2, 1);
  step(3, 0);
  EXPECT_EQ(values["w"].data, dense.data);
  step(3, 1);
  expect_pattern(dense, values["w"], 2, 4, 8, 1);
  const HostTensor settled = values["w"];
  values["w"] = random_tensor(f32({2, 8}), 5);
  step(4, 1);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(values["w"].floats()[i] == 0, settled.floats()[i] == 0) << i;
}

TEST(Prune, RefusesWhatMakesNoSense) {
  const auto refused = [](Attrs attrs) {
    EXPECT_THROW(run_op({.op = "prune", .inputs = {f32({4, 6})}, .attrs = std::move(attrs)}), UserError);
  };
  refused({});
  refused({{"share", 1.0}});
  refused({{"keep", std::int64_t{2}}, {"of", std::int64_t{4}}});
  refused({{"keep", std::int64_t{3}}, {"of", std::int64_t{3}}});
  refused({{"keep", std::int64_t{2}}, {"of", std::int64_t{3}}, {"share", 0.5}});
}

}  // namespace
}  // namespace neap
