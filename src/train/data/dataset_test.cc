#include "train/data/dataset.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
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
using testing::TempDir;
using testing::zip;

template <class T>
std::vector<T> values(const Dataset& data, std::string_view name, const std::vector<std::uint64_t>& indices,
                      const Augment& augment = {}) {
  const std::size_t field = data.field(name);
  std::vector<T> out(static_cast<std::size_t>(sample_bytes(data.fields()[field])) / sizeof(T) * indices.size());
  std::memset(out.data(), 0xff, out.size() * sizeof(T));  // NaN: what is not written shows
  data.fill(indices, field, reinterpret_cast<std::byte*>(out.data()), augment);
  return out;
}

std::vector<std::uint8_t> bytes(std::initializer_list<int> list) { return {list.begin(), list.end()}; }

// Three images of 2x2 pixels, 0 to 11, labels 2, 0, 1.
std::string small_pair(const TempDir& dir) {
  const auto images =
      dir.file("images", idx<std::uint8_t>(8, {3, 2, 2}, bytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})));
  const auto labels = dir.file("labels", idx<std::uint8_t>(8, {3}, {2, 0, 1}));
  return images.string() + "," + labels.string();
}

// Pixels as they are, so that tests can name them.
DatasetOptions plain_pixels() {
  DatasetOptions options;
  options.mean = {0};
  options.deviation = {1.0F / 255.0F};
  return options;
}

std::vector<int> rounded(const std::vector<float>& floats) {
  std::vector<int> out;
  for (const float f : floats) out.push_back(static_cast<int>(std::lround(f)));
  return out;
}

TEST(ImagePair, FieldsAndNormalisation) {
  const TempDir dir;
  DatasetOptions options;
  options.mean = {0.25F};
  options.deviation = {0.5F};
  const auto data = open_dataset(small_pair(dir), options);
  EXPECT_EQ(data->size(), 3U);
  EXPECT_EQ(data->classes(), 3);
  EXPECT_EQ(data->vocab(), 0);
  EXPECT_EQ(data->fields(),
            (std::vector<Field>{{"image", DType::kF32, {2, 2, 1}, true}, {"label", DType::kI32, {}, false}}));
  EXPECT_EQ(values<std::int32_t>(*data, "label", {2, 0}), (std::vector<std::int32_t>{1, 2}));
  const std::vector<float> images = values<float>(*data, "image", {2, 0});
  EXPECT_EQ(images[0], (8.0F / 255.0F - 0.25F) / 0.5F);
  EXPECT_EQ(images[7], (3.0F / 255.0F - 0.25F) / 0.5F);
  expect_user_error([&] { data->field("x"); }, {"'x'", "image, label"});
}

TEST(ImagePair, ImagesAreCutAndPaddedAroundTheCentre) {
  const TempDir dir;
  DatasetOptions options = plain_pixels();
  options.image = 4;
  EXPECT_EQ(rounded(values<float>(*open_dataset(small_pair(dir), options), "image", {1})),
            (std::vector<int>{0, 0, 0, 0, 0, 4, 5, 0, 0, 6, 7, 0, 0, 0, 0, 0}));
  options.image = 1;
  EXPECT_EQ(rounded(values<float>(*open_dataset(small_pair(dir), options), "image", {1})), std::vector<int>{4});
  options.image = 2;
  options.channels = 3;
  EXPECT_EQ(rounded(values<float>(*open_dataset(small_pair(dir), options), "image", {1})),
            (std::vector<int>{4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7}));
}

TEST(ImagePair, PaddingIsBlackBeforeNormalisation) {
  const TempDir dir;
  DatasetOptions options;
  options.image = 4;
  options.mean = {0.25F};
  options.deviation = {0.5F};
  EXPECT_EQ(values<float>(*open_dataset(small_pair(dir), options), "image", {1})[0], -0.5F);
}

TEST(ImagePair, ChannelsAreNormalisedEachByItsOwn) {
  const TempDir dir;
  const auto x = dir.file("x.npy", npy<std::uint8_t>("|u1", "(1, 1, 2, 3)", {0, 51, 102, 153, 204, 255}));
  const auto y = dir.file("y.npy", npy<std::int64_t>("<i8", "(1,)", {0}));
  DatasetOptions options;
  options.mean = {0, 0.2F, 0.4F};
  options.deviation = {1, 2, 4};
  const auto data = open_dataset(x.string() + "," + y.string(), options);
  EXPECT_EQ(data->fields()[0].sample_shape, (Shape{1, 2, 3}));
  const std::vector<float> expected = {0, 0, 0, 0.6F, 0.3F, 0.15F};
  const std::vector<float> got = values<float>(*data, "image", {0});
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
  options.mean = {0, 1};
  expect_user_error([&] { open_dataset(x.string() + "," + y.string(), options); }, {"2 numbers", "3 channels"});
  options.mean = {0};
  options.deviation = {0};
  expect_user_error([&] { open_dataset(x.string() + "," + y.string(), options); }, {"deviation 0"});
  options.deviation = {1};
  options.channels = 1;
  expect_user_error([&] { open_dataset(x.string() + "," + y.string(), options); }, {x.string(), "3 channels, not 1"});
}

// Every outcome of flips and shifts of a 2x2 image in a frame of its own size, as the sample sees it.
TEST(Augmentation, FlipsAndShifts) {
  const TempDir dir;
  const auto data = open_dataset(small_pair(dir), plain_pixels());
  const auto at = [](std::int64_t y, std::int64_t x) { return y < 0 || y > 1 || x < 0 || x > 1 ? 0 : 4 + y * 2 + x; };
  std::set<std::vector<int>> possible;
  for (const bool flip : {false, true}) {
    for (int down = -1; down <= 1; ++down) {
      for (int right = -1; right <= 1; ++right) {
        std::vector<int> image;
        for (int y = 0; y < 2; ++y) {
          for (int x = 0; x < 2; ++x) image.push_back(static_cast<int>(at(y + down, (flip ? 1 - x : x) + right)));
        }
        possible.insert(image);
      }
    }
  }
  std::map<std::vector<int>, int> seen;
  for (std::uint64_t epoch = 0; epoch < 600; ++epoch) {
    ++seen[rounded(values<float>(*data, "image", {1}, {.flip = true, .crop_padding = 1, .seed = 5, .epoch = epoch}))];
  }
  for (const auto& [image, count] : seen) {
    EXPECT_TRUE(possible.contains(image));
    EXPECT_GT(count, 10);
  }
  EXPECT_EQ(seen.size(), possible.size());
}

TEST(Augmentation, DependsOnSeedEpochAndSampleAlone) {
  const TempDir dir;
  std::vector<std::uint8_t> pixels(64UL * 8 * 8);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  const auto images = dir.file("images", idx<std::uint8_t>(8, {64, 8, 8}, pixels));
  const auto labels = dir.file("labels", idx<std::uint8_t>(8, {64}, std::vector<std::uint8_t>(64)));
  const auto data = open_dataset(images.string() + "," + labels.string());
  const Augment augment = {.flip = true, .crop_padding = 2, .seed = 1, .epoch = 3};
  const auto one = values<float>(*data, "image", {40, 7}, augment);
  const auto other = values<float>(*data, "image", {7, 40}, augment);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 64, other.begin() + 64));
  EXPECT_TRUE(std::equal(one.begin() + 64, one.end(), other.begin()));
  int differ = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    Augment next = augment;
    next.epoch = 4;
    Augment reseeded = augment;
    reseeded.seed = 2;
    const auto base = values<float>(*data, "image", {i}, augment);
    differ += base != values<float>(*data, "image", {i}, next) ? 1 : 0;
    differ += base != values<float>(*data, "image", {i}, reseeded) ? 1 : 0;
  }
  EXPECT_GT(differ, 100);  // 1 in 50 happens to be the same
}

TEST(ImagePair, BadInputNamesFileAndPosition) {
  const TempDir dir;
  const std::string good = small_pair(dir);
  const auto pair = [&](const std::string& labels) {
    return (dir / "images").string() + "," + dir.file("bad", labels).string();
  };
  const auto open = [](const std::string& spec, std::int64_t classes = 0) {
    return [spec, classes] {
      DatasetOptions options;
      options.classes = classes;
      open_dataset(spec, options);
    };
  };
  const std::string bad = (dir / "bad").string();
  expect_user_error(open(good, 2), {(dir / "labels").string(), "label 2", "position 0", "0 to 1"});
  expect_user_error(open(pair(idx<std::int8_t>(9, {3}, {0, -1, 0}))), {bad, "label -1", "position 1"});
  expect_user_error(open(pair(idx<std::uint8_t>(8, {2}, {0, 1}))), {"images", "3 samples", bad, "has 2"});
  expect_user_error(open(pair(idx<std::uint8_t>(8, {0}, {}))), {bad, "no samples"});
  expect_user_error(open(pair("")), {bad, "empty"});
  expect_user_error(open((dir / "labels").string() + "," + (dir / "images").string()), {"images first"});
  expect_user_error(open("a,b,c"), {"'a'", "No such file"});
  expect_user_error(open(dir.path().string() + "," + bad), {"folder"});
  expect_user_error(open(""), {"no data set"});
  expect_user_error(open((dir / "absent").string()), {"absent", "No such file"});
}

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
