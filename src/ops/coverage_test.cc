// Which ops have no kernel on CUDA: a list that only grows shorter.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "graph/op.h"
#include "ops/kernel.h"

namespace neap {
namespace {

// Passes and forms for the CPU's caches and vectors, which a GPU is not given; and what only imported models have.
const std::set<std::string> kOnCpuAlone = {"pack_int8",
                                           "linear_int8",
                                           "conv_int8",
                                           "pack_sparse",
                                           "linear_sparse",
                                           "pack_listed",
                                           "linear_listed",
                                           "pack_linear",
                                           "linear_packed",
                                           "vocab_loss",
                                           "vocab_delta",
                                           "vocab_weight",
                                           "product_rows",
                                           "feed_forward_rows",
                                           "feed_forward_again_rows",
                                           "norm_rows",
                                           "conv_rows"};

bool is_on_cuda(const OpDef& op) {
  for (std::size_t k = 0; k < op.kernel_count; ++k) {
    if (op.kernels[k].device == DeviceKind::kCuda) return true;
  }
  return false;
}

TEST(Coverage, OpsWithoutAKernelOnCudaAreListed) {
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(is_on_cuda(*op), kOnCpuAlone.contains(std::string(op->name))) << op->name;
  }
}

}  // namespace
}  // namespace neap
