#include "train/data/dataset.h"

#include <limits>
#include <set>

#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

using testing::expect_user_error;
using testing::gzip;
using testing::idx;
using testing::little;
using testing::npy;
using testing::plain_pixels;
using testing::rounded;
using testing::TempDir;
using testing::values;
using testing::zip;

TEST(NpyPair, GenericFieldsAreXAndY) {
  const TempDir dir;
  const auto x = dir.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  const auto y = dir.file("y.npy", npy<double>("<f8", "(2,)", {0.5, -0.5}));
  const auto data = open_dataset(x.string() + "," + y.string());
  EXPECT_EQ(data->fields(), (std::vector<Field>{{"x", DType::kF32, {3}, false}, {"y", DType::kF32, {}, false}}));
  EXPECT_EQ(data->classes(), 0);
  EXPECT_EQ(values<float>(*data, "x", {1}), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(values<float>(*data, "y", {1, 0}), (std::vector<float>{-0.5F, 0.5F}));
  expect_user_error([&] { open_dataset(x.string()); }, {x.string(), "pair"});
}

TEST(NpyPair, FloatsMustBeFiniteAndIntegersFit) {
  const TempDir dir;
  const auto y = dir.file("y.npy", npy<std::int64_t>("<i8", "(2,)", {0, 1}));
  const auto open = [&](const std::string& x) {
    return [spec = dir.file("x.npy", x).string() + "," + y.string()] { open_dataset(spec); };
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  expect_user_error(open(npy<float>("<f4", "(2, 2)", {0, 1, 2, nan})), {"x.npy", "NaN", "sample 1, element 1"});
  expect_user_error(open(npy<float>("<f4", "(2,)", {0, -infinity})), {"x.npy", "infinity", "sample 1"});
  expect_user_error(open(npy<double>("<f8", "(2,)", {0, nan})), {"x.npy", "NaN", "sample 1"});
  expect_user_error(open(npy<std::int64_t>("<i8", "(2, 1)", {0, 1LL << 31})),
                    {"x.npy", "2147483648", "sample 1", "32 bits"});
  expect_user_error(open(npy<float>("<f4", "()", {1})), {"x.npy", "single number"});
  expect_user_error(open(npy<float>("<f4", "(2, 0)", {})), {"x.npy", "no samples"});
}

TEST(Npz, FieldsAreNamedAsTheArrays) {
  const TempDir dir;
  const auto path = dir.file(
      "d.npz", zip({{.name = "pixels.npy", .data = npy<std::uint8_t>("|u1", "(2, 2)", {0, 51, 102, 255})},
                    {.name = "ids.npy", .data = npy<std::int16_t>("<i2", "(2, 2)", {1, -2, 3, 4}), .deflate = true},
                    {.name = "kind.npy", .data = npy<std::uint8_t>("|b1", "(2,)", {1, 0})}}));
  const auto data = open_dataset(path);
  EXPECT_EQ(data->fields(), (std::vector<Field>{{"pixels", DType::kF32, {2}, false},
                                                {"ids", DType::kI32, {2}, false},
                                                {"kind", DType::kI32, {}, false}}));
  EXPECT_EQ(data->classes(), 2);
  EXPECT_EQ(values<float>(*data, "pixels", {0})[0], -1.0F);
  EXPECT_EQ(values<float>(*data, "pixels", {1})[1], 1.0F);
  EXPECT_EQ(values<std::int32_t>(*data, "ids", {0}), (std::vector<std::int32_t>{1, -2}));
  EXPECT_EQ(values<std::int32_t>(*data, "kind", {0, 1}), (std::vector<std::int32_t>{1, 0}));
}

TEST(Npz, SplitsByName) {
  const TempDir dir;
  const auto path =
      dir.file("mnist.npz", zip({{.name = "x_train.npy", .data = npy<std::uint8_t>("|u1", "(2, 1, 1)", {1, 2})},
                                 {.name = "y_train.npy", .data = npy<std::uint8_t>("|u1", "(2,)", {0, 1})},
                                 {.name = "x_test.npy", .data = npy<std::uint8_t>("|u1", "(1, 1, 1)", {3})},
                                 {.name = "y_test.npy", .data = npy<std::uint8_t>("|u1", "(1,)", {1})}}));
  DatasetOptions options = plain_pixels();
  const auto train = open_dataset(path, options);
  EXPECT_EQ(train->size(), 2U);
  EXPECT_EQ(train->fields()[0], (Field{"x", DType::kF32, {1, 1, 1}, true}));
  options.split = Split::kTest;
  const auto test = open_dataset(path, options);
  EXPECT_EQ(test->size(), 1U);
  EXPECT_EQ(rounded(values<float>(*test, "x", {0})), std::vector<int>{3});
}

TEST(Text, WindowsAndTargets) {
  const TempDir dir;
  DatasetOptions options;
  options.length = 3;
  const auto data = open_dataset(dir.file("a.txt", "abcdefgh"), options);
  EXPECT_EQ(data->size(), 2U);
  EXPECT_EQ(data->vocab(), 256);
  EXPECT_EQ(data->classes(), 0);
  EXPECT_EQ(data->fields(),
            (std::vector<Field>{{"tokens", DType::kI32, {3}, false}, {"targets", DType::kI32, {3}, false}}));
  EXPECT_EQ(values<std::int32_t>(*data, "tokens", {1, 0}), (std::vector<std::int32_t>{'d', 'e', 'f', 'a', 'b', 'c'}));
  EXPECT_EQ(values<std::int32_t>(*data, "targets", {1, 0}), (std::vector<std::int32_t>{'e', 'f', 'g', 'b', 'c', 'd'}));
  EXPECT_EQ(open_dataset(dir.file("b.txt", "abcdefg"), options)->size(), 2U);
  EXPECT_EQ(open_dataset(dir.file("b.txt", "abcdef"), options)->size(), 1U);
}

TEST(Text, TheEndIsHeldOut) {
  const TempDir dir;
  DatasetOptions options;
  options.length = 3;
  options.validation_fraction = 0.4;
  const auto path = dir.file("a.txt", "abcdefghij");
  EXPECT_EQ(open_dataset(path, options)->size(), 1U);
  options.split = Split::kValidation;
  const auto data = open_dataset(path, options);
  EXPECT_EQ(data->size(), 1U);
  EXPECT_EQ(values<std::int32_t>(*data, "targets", {0}), (std::vector<std::int32_t>{'h', 'i', 'j'}));
}

TEST(Text, BadInput) {
  const TempDir dir;
  DatasetOptions options;
  const auto open = [&](std::string_view name, const std::string& content) {
    return [options, path = dir.file(name, content)] { open_dataset(path, options); };
  };
  expect_user_error(open("a.txt", "abc"), {"a.txt", "length"});
  options.length = 3;
  expect_user_error(open("a.txt", ""), {"a.txt", "empty"});
  expect_user_error(open("a.txt", "abc"), {"a.txt", "3 tokens", "take 4"});
  expect_user_error(open("a.txt.gz", gzip("abc")), {"a.txt.gz", "compressed"});
  options.vocab = 128;
  expect_user_error(open("a.txt", "abcd\xff"), {"a.txt", "token 255", "position 4", "0 to 127"});
  options.length = -1;
  expect_user_error(open("a.txt", "abcd"), {"-1"});
}

TEST(TokenFile, WindowsOf16BitTokens) {
  const TempDir dir;
  DatasetOptions options;
  options.length = 2;
  const auto path = dir.file("a.bin", little<std::uint16_t>({5, 300, 7, 40000, 9}));
  const auto data = open_dataset(path, options);
  EXPECT_EQ(data->vocab(), 40001);
  EXPECT_EQ(data->size(), 2U);
  EXPECT_EQ(values<std::int32_t>(*data, "tokens", {0, 1}), (std::vector<std::int32_t>{5, 300, 7, 40000}));
  EXPECT_EQ(values<std::int32_t>(*data, "targets", {1}), (std::vector<std::int32_t>{40000, 9}));
  options.vocab = 50257;
  EXPECT_EQ(open_dataset(path, options)->vocab(), 50257);
  options.vocab = 40000;
  expect_user_error([&] { open_dataset(path, options); }, {"a.bin", "token 40000", "position 3"});
  expect_user_error([&] { open_dataset(dir.file("b.bin", "odd"), options); }, {"b.bin", "3 bytes"});
}

TEST(HoldOut, PartsAreDisjointAndComplete) {
  const TempDir dir;
  std::vector<std::int32_t> numbers(100);
  for (std::size_t i = 0; i < 100; ++i) numbers[i] = static_cast<std::int32_t>(i);
  const auto path = dir.file("d.npz", zip({{.name = "n.npy", .data = npy<std::int32_t>("<i4", "(100, 1)", numbers)}}));
  DatasetOptions options;
  options.validation_fraction = 0.25;
  const auto part = [&](Split split, std::uint64_t seed) {
    options.split = split;
    options.seed = seed;
    const auto data = open_dataset(path, options);
    std::vector<std::uint64_t> all(data->size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return values<std::int32_t>(*data, "n", all);
  };
  const auto train = part(Split::kTrain, 1);
  const auto validation = part(Split::kValidation, 1);
  EXPECT_EQ(train.size(), 75U);
  EXPECT_EQ(validation.size(), 25U);
  std::set<std::int32_t> both(train.begin(), train.end());
  both.insert(validation.begin(), validation.end());
  EXPECT_EQ(both.size(), 100U);
  EXPECT_EQ(part(Split::kValidation, 1), validation);
  EXPECT_NE(part(Split::kValidation, 2), validation);
  options.validation_fraction = 0;
  expect_user_error([&] { part(Split::kValidation, 1); }, {"d.npz", "validation"});
  expect_user_error([&] { part(Split::kTest, 1); }, {"d.npz", "test"});
  for (const double fraction : {1.0, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    options.validation_fraction = fraction;
    expect_user_error([&] { part(Split::kTrain, 1); }, {"fraction"});
  }
}

TEST(FashionMnist, TheMissingPackageIsNamed) {
  const TempDir dir;
  DatasetOptions options;
  options.fashion_mnist = dir.path();
  expect_user_error([&] { open_dataset("fashion-mnist", options); },
                    {(dir / "train-images-idx3-ubyte.gz").string(), "dataset-fashion-mnist"});
  dir.file("train-images-idx3-ubyte.gz", gzip(idx<std::uint8_t>(8, {1}, {1})));
  dir.file("train-labels-idx1-ubyte.gz", gzip(idx<std::uint8_t>(8, {1}, {1})));
  expect_user_error([&] { open_dataset("fashion-mnist", options); }, {"train-images", "images"});
}

TEST(FashionMnist, SplitsAndStatistics) {
  DatasetOptions options;
  const auto train = open_dataset("fashion-mnist", options);
  EXPECT_EQ(train->size(), 60'000U);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->fields()[0], (Field{"image", DType::kF32, {28, 28, 1}, true}));
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < 60'000; i += 10) {
    for (const float f : values<float>(*train, "image", {i})) {
      sum += f;
      squares += static_cast<double>(f) * f;
    }
  }
  EXPECT_NEAR(sum / (6000 * 784), 0, 0.02);
  EXPECT_NEAR(squares / (6000 * 784), 1, 0.02);
  options.split = Split::kTest;
  EXPECT_EQ(open_dataset("fashion-mnist", options)->size(), 10'000U);
  options.split = Split::kValidation;
  options.validation_fraction = 0.1;
  EXPECT_EQ(open_dataset("fashion-mnist", options)->size(), 6'000U);
}

}  // namespace
}  // namespace neap
