#include "train/data/image.h"

#include <map>
#include <set>

#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

using testing::expect_user_error;
using testing::idx;
using testing::npy;
using testing::plain_pixels;
using testing::rounded;
using testing::TempDir;
using testing::values;

std::vector<std::uint8_t> bytes(std::initializer_list<int> list) { return {list.begin(), list.end()}; }

// Three images of 2x2 pixels, 0 to 11, labels 2, 0, 1.
std::string small_pair(const TempDir& dir) {
  const auto images =
      dir.file("images", idx<std::uint8_t>(8, {3, 2, 2}, bytes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})));
  const auto labels = dir.file("labels", idx<std::uint8_t>(8, {3}, {2, 0, 1}));
  return images.string() + "," + labels.string();
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

}  // namespace
}  // namespace neap
