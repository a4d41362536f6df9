// Data for a model's inputs: found by name or role, in the type and layout that the input has.
#include "train/data/wanted.h"

#include <algorithm>

#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

using testing::expect_user_error;
using testing::npy;
using testing::TempDir;
using testing::values;
using testing::zip;

DatasetOptions wanting(std::vector<Field> fields) {
  DatasetOptions out;
  out.wanted = std::move(fields);
  return out;
}

Field f32(const char* name, Shape shape) { return {.name = name, .dtype = DType::kF32, .sample_shape = shape}; }
Field i32(const char* name, Shape shape, std::int64_t bound = 0) {
  return {.name = name, .dtype = DType::kI32, .sample_shape = shape, .bound = bound};
}
Field i64(const char* name, Shape shape, std::int64_t bound = 0) {
  return {.name = name, .dtype = DType::kI64, .sample_shape = shape, .bound = bound};
}

struct Files {
  TempDir dir;
  std::string file(const char* name, const std::string& bytes) const { return dir.file(name, bytes).string(); }
};

TEST(Wanted, FilesByName) {
  const Files f;
  const auto ids = f.file("1.npy", npy<std::int64_t>("<i8", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  const auto mask = f.file("2.npy", npy<std::uint8_t>("|b1", "(2, 3)", {1, 1, 0, 1, 0, 0}));
  const auto y = f.file("3.npy", npy<std::int32_t>("<i4", "(2,)", {7, 9}));
  const std::string spec = "ids=" + ids + ",mask=" + mask + ",target=" + y;
  const auto data = open_dataset(spec, wanting({i64("mask", {3}), i32("ids", {3}, 10), f32("target", {})}));
  ASSERT_EQ(data->fields().size(), 3U);
  EXPECT_EQ(data->fields()[0].name, "mask");
  EXPECT_EQ(values<std::int64_t>(*data, "mask", {0}), (std::vector<std::int64_t>{1, 1, 0}));
  EXPECT_EQ(values<std::int32_t>(*data, "ids", {1}), (std::vector<std::int32_t>{4, 5, 6}));
  EXPECT_EQ(values<float>(*data, "target", {0, 1}), (std::vector<float>{7, 9}));
}

TEST(Wanted, WhatDoesNotFitIsNamedWithBothShapes) {
  const Files f;
  const auto x = f.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  const auto big = f.file("big.npy", npy<std::int64_t>("<i8", "(2,)", {0, 1LL << 40}));
  const auto y = f.file("y.npy", npy<std::int64_t>("<i8", "(2,)", {0, 3}));
  const auto three = f.file("three.npy", npy<std::int64_t>("<i8", "(3,)", {0, 1, 2}));
  const auto open = [](std::string spec, std::vector<Field> fields) {
    return [spec, fields] { open_dataset(spec, wanting(fields)); };
  };
  expect_user_error(open("x=" + x + ",target=" + y, {f32("x", {4}), i64("target", {})}),
                    {"x.npy", "'x'", "f32[3]", "f32[4]"});
  expect_user_error(open("x=" + x + ",target=" + y, {i64("x", {3}), i64("target", {})}), {"x.npy", "f32[3]", "i64[3]"});
  expect_user_error(open("x=" + x + ",y=" + y, {f32("x", {3})}), {"no input 'y'", "x f32[3]"});
  expect_user_error(open("x=" + x, {f32("x", {3}), i64("target", {})}), {"nothing for", "'target'", "i64[]", "only x"});
  expect_user_error(open("x=" + x + ",target=" + y, {f32("x", {3}), i64("target", {}, 3)}), {"y.npy", "label 3"});
  expect_user_error(open("x=" + x + ",target=" + big, {f32("x", {3}), i32("target", {})}), {"big.npy", "32 bits"});
  expect_user_error(open("x=" + x + ",target=" + three, {f32("x", {3}), i32("target", {})}), {"2 samples", "has 3"});
  expect_user_error(open("x=" + x + ",x=" + x, {f32("x", {3})}), {"two arrays", "'x'"});
  expect_user_error(open("x=nowhere.npy", {f32("x", {3})}), {"nowhere.npy"});
}

// [N,H,W,C] of bytes for an input whose channels come first, whatever its name.
TEST(Wanted, ImagesInTheLayoutOfTheInput) {
  const Files f;
  std::vector<std::uint8_t> bytes(5 * 5 * 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  const auto images = f.file("images.npy", npy("|u1", "(1, 5, 5, 3)", bytes));
  const auto labels = f.file("labels.npy", npy<std::int64_t>("<i8", "(1,)", {2}));
  const std::string spec = images + "," + labels;
  const auto last = open_dataset(spec, wanting({f32("anything", {5, 5, 3}), i64("target", {}, 4)}));
  const auto first = open_dataset(spec, wanting({f32("anything", {3, 5, 5}), i64("labels", {}, 4)}));
  const auto a = values<float>(*last, "anything", {0});
  const auto b = values<float>(*first, "anything", {0});
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < 25; ++i) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(b[c * 25 + i], a[i * 3 + c]);
  }
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
  EXPECT_LT(a.front(), a.back());
  EXPECT_EQ(values<std::int64_t>(*first, "labels", {0}), (std::vector<std::int64_t>{2}));
}

TEST(Wanted, NpzNeedsOnlyWhatTheModelTakes) {
  const Files f;
  const auto path =
      f.file("d.npz", zip({{.name = "extra.npy", .data = npy<float>("<f4", "(7,)", {0, 0, 0, 0, 0, 0, 0})},
                           {.name = "ids.npy", .data = npy<std::uint8_t>("|u1", "(2, 2)", {0, 51, 102, 255})},
                           {.name = "label.npy", .data = npy<std::uint8_t>("|u1", "(2,)", {1, 0})}}));
  const auto data = open_dataset(path, wanting({i64("ids", {2}, 256), i64("target", {})}));
  EXPECT_EQ(values<std::int64_t>(*data, "ids", {1}), (std::vector<std::int64_t>{102, 255}));
  EXPECT_EQ(values<std::int64_t>(*data, "target", {0, 1}), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(data->size(), 2U);
}

TEST(Wanted, TextFeedsTheOnlyIdsAndItsMaskIsOne) {
  const Files f;
  const auto text = f.file("t.txt", "abcdefg");
  const auto data =
      open_dataset(text, wanting({i64("input_ids", {3}, 256), i64("attention_mask", {3}), i64("target", {3}, 256)}));
  EXPECT_EQ(data->size(), 2U);
  EXPECT_EQ(values<std::int64_t>(*data, "input_ids", {1}), (std::vector<std::int64_t>{'d', 'e', 'f'}));
  EXPECT_EQ(values<std::int64_t>(*data, "target", {1}), (std::vector<std::int64_t>{'e', 'f', 'g'}));
  EXPECT_EQ(values<std::int64_t>(*data, "attention_mask", {1}), (std::vector<std::int64_t>{1, 1, 1}));
  expect_user_error([&] { open_dataset(text, wanting({f32("x", {3})})); }, {"t.txt", "'x'", "f32[3]"});
  expect_user_error(
      [&] {
        open_dataset(text, wanting({i64("ids", {3}, 256), i64("target", {})}));
      },
      {"t.txt", "'target'", "i64[]"});
  expect_user_error([&] { open_dataset(text, wanting({i64("ids", {3}, 256), i64("kinds", {3}, 2)})); }, {"t.txt"});
}

TEST(Wanted, SyntheticFitsAnyInput) {
  const Field boolean = {.name = "flags", .dtype = DType::kBool, .sample_shape = {4}};
  Field share = f32("target", {5});
  share.bound = 1;
  const auto data =
      open_dataset("synthetic", wanting({f32("x", {2, 8, 8}), i64("ids", {6}, 11), i64("mask", {6}), boolean, share}));
  const std::vector<std::uint64_t> some = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const std::int64_t id : values<std::int64_t>(*data, "ids", some)) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 11);
  }
  for (const std::int64_t m : values<std::int64_t>(*data, "mask", some)) EXPECT_EQ(m, 1);
  for (const std::uint8_t m : values<std::uint8_t>(*data, "flags", some)) EXPECT_EQ(m, 1);
  double sum = 0;
  for (const float v : values<float>(*data, "target", some)) {
    EXPECT_GE(v, 0);
    EXPECT_LT(v, 1);
    sum += v;
  }
  EXPECT_NEAR(sum / 40, 0.5, 0.2);
  const Field half = {.name = "h", .dtype = DType::kF16, .sample_shape = {4}};
  expect_user_error([&] { open_dataset("synthetic", wanting({half})); }, {"'h'", "f16"});
}

// A target beside ids of the same shape is what follows each of them.
TEST(Wanted, SyntheticTargetsFollowTheTokens) {
  const auto data = open_dataset("synthetic", wanting({i64("ids", {6}, 100), i32("target", {6}, 100)}));
  const auto ids = values<std::int64_t>(*data, "ids", {3});
  const auto next = values<std::int32_t>(*data, "target", {3});
  for (std::size_t i = 0; i + 1 < 6; ++i) EXPECT_EQ(next[i], ids[i + 1]);
}

}  // namespace
}  // namespace neap
