// A step that the application feeds allocates nothing: not by new, malloc or mmap, on no thread, in no library.
#include "examples/embed/allocations.h"

#include <gtest/gtest.h>

#include <cstring>

#include "neap/train.h"

namespace neap {
namespace {

// Small numbers: right as pixels, tokens and labels alike.
void feed(std::string_view input, std::span<std::byte> dst) {
  for (std::size_t i = 0; i < dst.size() / 4; ++i) {
    const auto number = static_cast<std::int32_t>(i * 7 % 5);
    const float value = static_cast<float>(number) * 0.25F;
    std::memcpy(dst.data() + i * 4, input == "image" ? static_cast<const void*>(&value) : &number, 4);
  }
}

struct Case {
  const char* model;
  TrainOptions options;
};

class Allocations : public ::testing::TestWithParam<Case> {};

TEST_P(Allocations, NoneInAStep) {
  TrainOptions options = GetParam().options;
  options.own_kernels = true;  // each call of oneDNN allocates a handful of objects
  options.optimizer.clip = 1;
  Trainer trainer(open_model(GetParam().model), options, feed);
  count_allocations(true);
  const std::int64_t before = counted_allocations();
  for (int i = 0; i < 3; ++i) trainer.advance();
  const std::int64_t after = counted_allocations();
  count_allocations(false);
  EXPECT_EQ(after - before, 0);
  EXPECT_EQ(trainer.step(), 3);
}

INSTANTIATE_TEST_SUITE_P(Models, Allocations,
                         ::testing::Values(Case{"mlp", {.batch = 16}}, Case{"cnn", {.batch = 2}},
                                           Case{"resnet20", {.batch = 1}},
                                           Case{"gpt-mini:layers=2,dropout=0.1", {.batch = 2, .length = 32}},
                                           Case{"bert-mini:layers=1", {.batch = 2, .length = 32}},
                                           Case{"lstm-lm:hidden=64", {.batch = 4, .length = 20}},
                                           Case{"gru-lm:hidden=64", {.batch = 4, .length = 20}}),
                         [](const auto& which) {
                           std::string name = which.param.model;
                           name = name.substr(0, name.find(':'));
                           std::erase(name, '-');
                           return name;
                         });

TEST(AllocationHook, SeesWhatIsAllocated) {
  count_allocations(true);
  const std::int64_t before = counted_allocations();
  const std::vector<int> some(1000);
  const std::int64_t after = counted_allocations();
  count_allocations(false);
  EXPECT_EQ(some.size(), 1000U);
  EXPECT_EQ(after - before, 1);
}

}  // namespace
}  // namespace neap
