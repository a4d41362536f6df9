#include <gtest/gtest.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

// A kernel cannot throw: the host does, when it next waits for the device. The region is read from the first image.
TEST(RoiAlignOnCuda, BadImageIsAUserError) {
  const HostTensor x = random_tensor({DType::kF32, {2, 4, 4, 3}}, 1);
  const HostTensor rois = random_tensor({DType::kF32, {1, 4}}, 2, 0, 4);
  const auto check = [&](std::int64_t image) {
    HostTensor images({DType::kI64, {1}});
    const OpCase first{
        .op = "roi_align", .inputs = {x.type, rois.type, images.type}, .given = {{0, x}, {1, rois}, {2, images}}};
    const HostTensor want = run_op(first)[0];
    images.as<std::int64_t>()[0] = image;
    NodeCase c{.inputs = {&x, &rois, &images}, .want = {&want}, .tolerance = 1e-6, .what = "roi_align"};
    c.call = {.op = &op_named("roi_align"), .inputs = {x.type, rois.type, images.type}};
    c.call.outputs = c.call.op->infer(c.call);
    check_node_on_cuda(c);
  };
  for (const std::int64_t image : {-1, 2, 1 << 30}) {
    try {
      check(image);
      ADD_FAILURE() << image;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("roi_align: index " + std::to_string(image)), std::string::npos);
    }
  }
  check(0);
}

}  // namespace
}  // namespace neap
