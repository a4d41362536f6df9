// Which ops have no kernel on CUDA: a list that only grows shorter.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "graph/op.h"
#include "ops/has_kernel.h"

namespace neap {
namespace {

// Passes and forms for the CPU's caches and vectors, which a GPU is not given.
// Packed weights (pack_linear) lie as a CPU's product reads them: the GPU's reads plain ones, and the pass that packs
// (optimize/layout.h) is not for it; nor are groups of rows, which are for caches.
const std::set<std::string> kOnCpuAlone = {"pack_linear",       "linear_packed",           "product_rows",
                                           "feed_forward_rows", "feed_forward_again_rows", "norm_rows",
                                           "conv_rows"};

TEST(Coverage, OpsWithoutAKernelOnCudaAreListed) {
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(has_kernel(*op, DeviceKind::kCuda), kOnCpuAlone.contains(std::string(op->name))) << op->name;
  }
}

}  // namespace
}  // namespace neap
