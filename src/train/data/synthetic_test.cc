#include "train/data/synthetic.h"

#include <cmath>
#include <map>
#include <numeric>

#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

template <class T>
std::vector<T> values(const Dataset& data, std::size_t field, std::uint64_t begin, std::uint64_t count) {
  std::vector<std::uint64_t> indices(count);
  std::iota(indices.begin(), indices.end(), begin);
  std::vector<T> out(static_cast<std::size_t>(sample_bytes(data.fields()[field])) / sizeof(T) * count);
  data.fill(indices, field, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(Synthetic, DefaultFields) {
  DatasetOptions options;
  options.image = 8;
  options.classes = 5;
  options.samples = 100;
  const auto data = open_dataset("synthetic", options);
  EXPECT_EQ(data->size(), 100U);
  EXPECT_EQ(data->classes(), 5);
  EXPECT_EQ(data->fields(),
            (std::vector<Field>{{"image", DType::kF32, {8, 8, 3}, true}, {"label", DType::kI32, {}, false, 5}}));
  options.split = Split::kTest;
  EXPECT_EQ(open_dataset("synthetic", options)->size(), 10U);
  options.samples = 0;
  testing::expect_user_error([&] { open_dataset("synthetic", options); }, {"one sample"});
}

TEST(Synthetic, AFunctionOfSeedSplitAndIndex) {
  DatasetOptions options;
  const auto a = values<float>(*open_dataset("synthetic", options), 0, 0, 4);
  EXPECT_EQ(values<float>(*open_dataset("synthetic", options), 0, 0, 4), a);
  EXPECT_EQ(values<float>(*open_dataset("synthetic", options), 0, 1, 1),
            std::vector<float>(a.begin() + 3072, a.begin() + 6144));
  options.seed = 1;
  EXPECT_NE(values<float>(*open_dataset("synthetic", options), 0, 0, 4), a);
  options.seed = 0;
  options.split = Split::kValidation;
  EXPECT_NE(values<float>(*open_dataset("synthetic", options), 0, 0, 4), a);
}

// The nearest class mean, learnt from one split, must recognise the other.
TEST(Synthetic, ImagesAreLearnable) {
  for (const Shape& shape : {Shape{8, 8, 3}, Shape{64}}) {
    DatasetOptions options;
    options.classes = 4;
    options.wanted = {{"x", DType::kF32, shape, false}, {"label", DType::kI32, {}, false}};
    const auto train = open_dataset("synthetic", options);
    const auto elements = static_cast<std::size_t>(shape.count());
    const auto x = values<float>(*train, 0, 0, 400);
    const auto labels = values<std::int32_t>(*train, 1, 0, 400);
    std::vector<std::vector<double>> mean(4, std::vector<double>(elements));
    std::vector<int> count(4);
    for (std::size_t i = 0; i < 400; ++i) {
      const auto k = static_cast<std::size_t>(labels[i]);
      ASSERT_LT(k, 4U);
      ++count[k];
      for (std::size_t j = 0; j < elements; ++j) mean[k][j] += x[i * elements + j];
    }
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_GT(count[k], 60);
      for (double& m : mean[k]) m /= count[k];
    }
    options.split = Split::kTest;
    const auto test = open_dataset("synthetic", options);
    const auto test_x = values<float>(*test, 0, 0, 200);
    const auto test_labels = values<std::int32_t>(*test, 1, 0, 200);
    int right = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      std::map<double, std::int32_t> distances;
      for (std::size_t k = 0; k < 4; ++k) {
        double distance = 0;
        for (std::size_t j = 0; j < elements; ++j) distance += std::pow(test_x[i * elements + j] - mean[k][j], 2);
        distances[distance] = static_cast<std::int32_t>(k);
      }
      right += distances.begin()->second == test_labels[i] ? 1 : 0;
    }
    EXPECT_GT(right, 150);
  }
}

TEST(Synthetic, NoiseIsNormalEnough) {
  DatasetOptions options;
  options.classes = 1;
  options.wanted = {{"x", DType::kF32, {1}, false}};
  const auto x = values<float>(*open_dataset("synthetic", options), 0, 0, 40'000);
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / 40'000;
  double variance = 0;
  double fourth = 0;
  for (const float f : x) {
    variance += std::pow(f - mean, 2) / 40'000;
    fourth += std::pow(f - mean, 4) / 40'000;
  }
  EXPECT_NEAR(variance, 1, 0.03);
  EXPECT_NEAR(fourth / (variance * variance), 2.7, 0.1);  // 3 - 6/5/4 for a sum of four; 3 for a normal
}

TEST(Synthetic, TokensFollowOneAnother) {
  DatasetOptions options;
  options.vocab = 1000;
  options.wanted = {{"tokens", DType::kI32, {32}, false}, {"targets", DType::kI32, {32}, false}};
  const auto data = open_dataset("synthetic", options);
  EXPECT_EQ(data->vocab(), 1000);
  const auto tokens = values<std::int32_t>(*data, 0, 0, 500);
  const auto targets = values<std::int32_t>(*data, 1, 0, 500);
  std::map<std::int32_t, std::map<std::int32_t, int>> successors;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_GE(targets[i], 0);
    ASSERT_LT(targets[i], 1000);
    if (i % 32 != 31) {
      ASSERT_EQ(targets[i], tokens[i + 1]);
    }
    ++successors[tokens[i]][targets[i]];
  }
  int expected = 0;
  for (const auto& [token, counts] : successors) {
    int most = 0;
    for (const auto& [target, count] : counts) most = std::max(most, count);
    expected += most;
  }
  EXPECT_NEAR(expected / 16'000.0, 0.9, 0.02);
  options.vocab = 7;
  for (const std::int32_t token : values<std::int32_t>(*open_dataset("synthetic", options), 1, 0, 100))
    ASSERT_LT(token, 7);
}

}  // namespace
}  // namespace neap
