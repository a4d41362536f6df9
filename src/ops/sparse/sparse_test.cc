#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Layer {
  std::int64_t rows, in, out;
  bool bias = true, transposed = false;
};

HostTensor pruned(const Layer& s, Attrs rule) {
  if (s.transposed) rule.set("axis", std::int64_t{0});
  const TensorType type = f32(s.transposed ? Shape{s.in, s.out} : Shape{s.out, s.in});
  return run_op({.op = "prune", .inputs = {type}, .attrs = rule, .given = {{0, random_tensor(type, 3)}}})[0];
}

// The layer by the op that skips zeros against the dense one: both get the same pruned weight.
void check_against_dense(const Layer& s, const HostTensor& weight, const char* pack, const char* op, Attrs attrs) {
  Attrs packing = attrs;
  if (s.transposed) packing.set("transposed", std::int64_t{1});
  const OpCase pack_case = {
      .op = pack, .inputs = {weight.type}, .attrs = packing, .given = {{0, weight}}, .tolerance = 0};
  check_kernels(pack_case);
  const auto packed = run_op(pack_case);
  attrs.set("in", s.in);
  attrs.set("out", s.out);
  OpCase sparse = {.op = op, .inputs = {f32({s.rows, s.in})}, .attrs = attrs};
  for (std::size_t i = 0; i < packed.size(); ++i) {
    sparse.inputs.push_back(packed[i].type);
    sparse.given[1 + i] = packed[i];
  }
  OpCase dense = {.op = "linear",
                  .inputs = {f32({s.rows, s.in}), weight.type},
                  .attrs = {{"transposed", static_cast<std::int64_t>(s.transposed)}},
                  .given = {{1, weight}}};
  sparse.given[0] = random_tensor(f32({s.rows, s.in}), 5);
  dense.given[0] = sparse.given[0];
  if (s.bias) {
    sparse.given[sparse.inputs.size()] = random_tensor(f32({s.out}), 6);
    dense.given[2] = sparse.given[sparse.inputs.size()];
    sparse.inputs.push_back(f32({s.out}));
    dense.inputs.push_back(f32({s.out}));
  }
  check_kernels(sparse);
  expect_same(run_op(sparse)[0], run_op(dense)[0], 1e-5, op);
}

void check_pattern(const Layer& s, std::int64_t keep, std::int64_t of) {
  const HostTensor weight = pruned(s, {{"keep", keep}, {"of", of}});
  check_against_dense(s, weight, "pack_sparse", "linear_sparse", {{"kept", keep * 8 / of}});
}

void check_share(const Layer& s, double share) {
  const HostTensor weight = pruned(s, {{"share", share}});
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < weight.type.elements(); ++i) count += weight.floats()[i] != 0 ? 1 : 0;
  check_against_dense(s, weight, "pack_listed", "linear_listed", {{"count", count}});
  check_against_dense(s, weight, "pack_listed", "linear_listed", {{"count", count + 3}});  // with room to spare
}

TEST(Sparse, PatternsGiveWhatTheDenseLayerGives) {
  for (const std::int64_t rows : {1, 2, 7, 8, 70}) {
    for (const std::int64_t out : {1, 16, 17, 40}) check_pattern({rows, 24, out}, 2, 4);
  }
  check_pattern({9, 64, 33}, 4, 8);
  check_pattern({9, 64, 33, false}, 1, 4);
  check_pattern({9, 64, 33, true, true}, 3, 8);
  check_pattern({40, 328, 20}, 2, 4);
}

TEST(Sparse, ListsGiveWhatTheDenseLayerGives) {
  for (const std::int64_t rows : {1, 6, 7, 20, 33, 64, 130}) check_share({rows, 50, 37}, 0.8);
  check_share({20, 50, 37, false}, 0.9);
  check_share({3, 200, 37, true, true}, 0.5);
}

TEST(Sparse, PackedWeightsAreSmaller) {
  const Layer s{1, 64, 64};
  const HostTensor weight = pruned(s, {{"keep", std::int64_t{2}}, {"of", std::int64_t{4}}});
  const auto packed = run_op(
      {.op = "pack_sparse", .inputs = {weight.type}, .attrs = {{"kept", std::int64_t{4}}}, .given = {{0, weight}}});
  EXPECT_EQ(packed[0].data.size() + packed[1].data.size(), weight.data.size() * 9 / 16);
}

TEST(Sparse, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "pack_sparse", .inputs = {f32({4, 12})}, .attrs = {{"kept", std::int64_t{4}}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "pack_sparse", .inputs = {f32({4, 16})}, .attrs = {{"kept", std::int64_t{8}}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "pack_sparse", .inputs = {f32({4, 16})}, .attrs = {{"kept", std::int64_t{4}}}}),
               InternalError);  // it has no zeros
}

}  // namespace
}  // namespace neap
