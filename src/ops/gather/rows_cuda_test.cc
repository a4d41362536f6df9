#include <gtest/gtest.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

// A kernel cannot throw: the host does, when it next waits for the device.
TEST(RowsOnCuda, BadIndexIsAUserError) {
  const HostTensor table = random_tensor({DType::kF32, {4, 3}}, 1);
  HostTensor ids({DType::kI32, {2}});
  const auto check = [&](std::int32_t id) {
    ids.as<std::int32_t>()[1] = id;
    NodeCase c{.inputs = {&table, &ids}, .tolerance = 1e-6, .what = "embedding"};
    c.call = {.op = &op_named("embedding"), .inputs = {table.type, ids.type}};
    c.call.outputs = c.call.op->infer(c.call);
    HostTensor want(c.call.outputs[0]);
    for (int i = 0; i < 6; ++i) want.floats()[i] = table.floats()[i < 3 || id < 0 || id > 3 ? i % 3 : 3 * id + i - 3];
    c.want = {&want};
    check_node_on_cuda(c);
  };
  check(3);
  for (const std::int32_t id : {-1, 4, 1 << 30}) {
    try {
      check(id);
      ADD_FAILURE() << id;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(id)), std::string::npos) << error.what();
    }
  }
  check(0);
}

}  // namespace
}  // namespace neap
