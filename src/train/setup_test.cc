// What planning and training begin with.
#include "train/setup.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

std::string refusal(const std::string& device, DeviceMaker cuda) {
  TrainOptions options;
  options.device = device;
  try {
    (void)make_device(options, cuda);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(MakeDevice, ABuildWithoutCudaSaysSo) {
  EXPECT_EQ(refusal("cuda", nullptr), "this build of neap has no CUDA; use --device cpu");
  EXPECT_EQ(refusal("cpu", nullptr), "");
  EXPECT_EQ(refusal("null", nullptr), "");
  EXPECT_EQ(refusal("tpu", nullptr), "there is no device 'tpu'; take cpu, cuda or null");
}

TEST(MakeDevice, ABuildWithCudaIsAskedForItAlone) {
  const DeviceMaker broken = []() -> std::unique_ptr<Device> { throw UserError("asked"); };
  EXPECT_EQ(refusal("cuda", broken), "asked");
  EXPECT_EQ(refusal("cpu", broken), "");
}

}  // namespace
}  // namespace neap
