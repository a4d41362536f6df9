#include <gtest/gtest.h>

#include "graph/op.h"
#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

// What the host says when a kernel has met an index out of range.
std::string fault_of(const std::string& op, const std::vector<HostTensor>& inputs, const Attrs& attrs = {}) {
  NodeCase c{.tolerance = 1, .what = op};
  c.call = {.op = &op_named(op), .attrs = attrs};
  for (const HostTensor& t : inputs) {
    c.call.inputs.emplace_back(t.type);
    c.inputs.push_back(&t);
  }
  c.call.outputs = c.call.op->infer(c.call);
  try {
    check_node_on_cuda(c);
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

HostTensor floats(const Shape& shape) { return HostTensor({DType::kF32, shape}); }

TEST(FaultsOnCuda, NameTheOpAndTheIndex) {
  const auto index = [](double bad) { return tensor_from(DType::kI64, {2, 1}, {1, bad}); };
  EXPECT_EQ(fault_of("gather_nd", {floats({3, 2}), index(3)}), "gather: index 3 is not in [0, 3)");
  const Attrs shape{{"shape", Shape{3, 2}}};
  EXPECT_EQ(fault_of("gather_nd_grad", {index(-4), floats({2, 2})}, shape), "gather: index -4 is not in [0, 3)");
  EXPECT_EQ(fault_of("scatter_nd", {floats({3, 2}), index(7), floats({2, 2})}), "scatter: index 7 is not in [0, 3)");
  const Attrs one{{"shape", Shape{1, 3, 1}}};
  const HostTensor places = tensor_from(DType::kI64, {1, 2, 1}, {1, 3});
  EXPECT_EQ(fault_of("max_unpool", {floats({1, 2, 1}), places}, one), "max_unpool: index 3 is not in [0, 3)");
  EXPECT_EQ(fault_of("max_unpool_grad", {floats({1, 3, 1}), places}, one), "max_unpool: index 3 is not in [0, 3)");
  const HostTensor lengths = tensor_from(DType::kI64, {2}, {1, 4});
  EXPECT_EQ(fault_of("reverse_sequence", {floats({3, 2}), lengths}), "reverse_sequence: index 4 is not in [0, 4)");
}

}  // namespace
}  // namespace neap
