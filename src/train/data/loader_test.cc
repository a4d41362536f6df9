#include "train/data/loader.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "core/file_testing.h"
#include "train/data/sampler.h"

namespace neap {
namespace {

using testing::expect_user_error;

std::vector<std::uint64_t> take(Sampler& sampler, int batches) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < batches; ++i) {
    const auto indices = sampler.next().indices;
    out.insert(out.end(), indices.begin(), indices.end());
  }
  return out;
}

TEST(Permutation, HoldsEveryNumberOnce) {
  const auto order = permutation(1000, 7);
  EXPECT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(order, permutation(1000, 7));
  EXPECT_NE(order, permutation(1000, 8));
  EXPECT_TRUE(permutation(0, 1).empty());
}

TEST(Permutation, IsUniform) {
  std::vector<int> first(6);
  std::vector<int> last(6);
  for (std::uint64_t key = 0; key < 6000; ++key) {
    const auto order = permutation(6, key);
    ++first[order[0]];
    ++last[order[5]];
  }
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(first[i], 1000, 120);
    EXPECT_NEAR(last[i], 1000, 120);
  }
}

TEST(Sampler, PartsOfABatchAreTheWholeBatchInOrder) {
  Sampler whole({.size = 23, .batch = 6, .seed = 4});
  Sampler parts({.size = 23, .batch = 2, .seed = 4, .parts = 3});
  EXPECT_EQ(parts.batches_per_epoch(), 9U);
  EXPECT_EQ(take(whole, 7), take(parts, 21));
}

TEST(Sampler, StreamsReadOnWhereTheyStopped) {
  Sampler sampler({.size = 14, .batch = 2, .parts = 2, .streams = true});
  EXPECT_EQ(take(sampler, 6), (std::vector<std::uint64_t>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(take(sampler, 2), (std::vector<std::uint64_t>{0, 3, 6, 9}));
  EXPECT_EQ(sampler.position(), (Sampler::Position{1, 4}));
}

TEST(Sampler, AnEpochIsEverySampleOnceLessTheRest) {
  Sampler sampler({.size = 11, .batch = 3, .seed = 4});
  EXPECT_EQ(sampler.batches_per_epoch(), 3U);
  const auto first = take(sampler, 3);
  EXPECT_EQ(std::set<std::uint64_t>(first.begin(), first.end()).size(), 9U);
  EXPECT_EQ(sampler.position(), (Sampler::Position{0, 9}));
  const auto second = take(sampler, 3);
  EXPECT_EQ(sampler.position(), (Sampler::Position{1, 9}));
  EXPECT_NE(first, second);
}

TEST(Sampler, WithoutShuffling) {
  Sampler sampler({.size = 5, .batch = 2, .shuffle = false});
  EXPECT_EQ(take(sampler, 3), (std::vector<std::uint64_t>{0, 1, 2, 3, 0, 1}));
}

TEST(Sampler, GoesOnFromAnyPosition) {
  const SamplerOptions options = {.size = 20, .batch = 3, .seed = 9};
  Sampler whole(options);
  const auto expected = take(whole, 20);
  for (int stop = 0; stop < 20; ++stop) {
    Sampler first(options);
    auto got = take(first, stop);
    Sampler second(options);
    second.seek(first.position());
    const auto rest = take(second, 20 - stop);
    got.insert(got.end(), rest.begin(), rest.end());
    EXPECT_EQ(got, expected);
  }
}

TEST(Sampler, OtherBatchesGoOnWhereItIs) {
  Sampler ones({.size = 10, .batch = 1, .seed = 9});
  const auto order = take(ones, 20);
  Sampler sampler({.size = 10, .batch = 2, .seed = 9});
  const auto expect_next = [&](std::uint64_t batch, std::size_t at) {
    EXPECT_TRUE(std::ranges::equal(sampler.next(batch).indices, std::span(order).subspan(at, batch))) << at;
  };
  expect_next(2, 0);
  expect_next(5, 2);
  sampler.skip(2);
  expect_next(1, 9);
  expect_next(7, 10);
  EXPECT_EQ(sampler.position(), (Sampler::Position{1, 7}));
  sampler.skip(4);  // more than is left
  EXPECT_EQ(sampler.position(), (Sampler::Position{2, 4}));
}

TEST(Sampler, PartsOfOtherBatchesStayInOneEpoch) {
  Sampler whole({.size = 23, .batch = 6, .seed = 4});
  Sampler parts({.size = 23, .batch = 2, .seed = 4, .parts = 3});
  for (const std::uint64_t batch : {2, 3, 3, 1, 7, 2, 5}) {
    const auto expected = whole.next(3 * batch).indices;
    for (std::size_t part = 0; part < 3; ++part) {
      EXPECT_TRUE(std::ranges::equal(parts.next(batch).indices, expected.subspan(part * batch, batch))) << batch;
    }
  }
}

TEST(Sampler, RefusesWhatCannotBe) {
  expect_user_error([] { Sampler sampler({.size = 5, .batch = 6}); }, {"batch of 6", "5 samples"});
  expect_user_error([] { Sampler sampler({.size = 5, .batch = 0}); }, {"at least one"});
  Sampler sampler({.size = 5, .batch = 5});
  expect_user_error([&] { sampler.seek({0, 6}); }, {"sample 6", "of 5"});
}

// Field n holds the index, field e the epoch that augmentation sees; sample `bad` cannot be read.
class CountingSet final : public Dataset {
 public:
  explicit CountingSet(std::uint64_t bad = ~0ULL) : bad_(bad) {
    size_ = 12;
    fields_ = {{"n", DType::kI32, {}, false}, {"e", DType::kI32, {2}, false}};
  }
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
            const Augment& augment) const override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(dst) % 64, 0U);
    auto* to = reinterpret_cast<std::int32_t*>(dst);
    for (const std::uint64_t index : indices) {
      if (index == bad_) {
        failed = true;
        throw UserError("sample cannot be read");
      }
      *to++ = static_cast<std::int32_t>(field == 0 ? index : augment.epoch);
      if (field == 1) *to++ = static_cast<std::int32_t>(augment.seed);
    }
    if (field == 0) ++filled;
  }
  mutable std::atomic<int> filled = 0;
  mutable std::atomic<bool> failed = false;

 private:
  std::uint64_t bad_;
};

std::int32_t number(const Loader::Batch& batch, std::size_t field, std::size_t at) {
  std::int32_t value = 0;
  std::memcpy(&value, batch.fields[field].data() + at * 4, 4);
  return value;
}

template <class Condition>
void wait_until(Condition&& holds) {
  for (int i = 0; i < 5000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Loader, HandsOverTheSamplersBatchesInOrder) {
  const auto data = std::make_shared<CountingSet>();
  const SamplerOptions options = {.size = 12, .batch = 5, .seed = 3};
  Sampler expected(options);
  Loader loader(data, Sampler(options), {.seed = 77});
  EXPECT_EQ(loader.bytes(), 2 * (64U + 64U));
  for (int i = 0; i < 200; ++i) {
    const Sampler::Batch want = expected.next();
    const Loader::Batch& got = loader.next();
    ASSERT_EQ(got.epoch, want.epoch);
    ASSERT_TRUE(std::ranges::equal(got.indices, want.indices));
    ASSERT_EQ(got.next, expected.position());
    ASSERT_EQ(got.fields[0].size(), 20U);
    ASSERT_EQ(got.fields[1].size(), 40U);
    for (std::size_t j = 0; j < 5; ++j) ASSERT_EQ(number(got, 0, j), static_cast<std::int32_t>(want.indices[j]));
    ASSERT_EQ(number(got, 1, 0), static_cast<std::int32_t>(want.epoch));
    ASSERT_EQ(number(got, 1, 1), 77);
    if (i % 3 == 0) loader.release();
  }
}

TEST(Loader, BatchesChangeTheirSizeWhereTheyShould) {
  const auto data = std::make_shared<CountingSet>();
  const SamplerOptions options = {.size = 12, .batch = 2, .seed = 3};
  const BatchOptions form{.limits = {{.batch = 4, .samples = 5}, {.batch = 6, .samples = 1}}};
  Sampler expected(options);
  expected.skip(2);
  Loader loader(data, Sampler(expected), {}, 2, form, 3);
  for (const std::uint64_t batch : {2, 5, 5, 1, 1}) {
    const Sampler::Batch want = expected.next(batch);
    const Loader::Batch& got = loader.next();
    ASSERT_TRUE(std::ranges::equal(got.indices, want.indices));
    ASSERT_EQ(got.fields[0].size(), 4 * batch);
    ASSERT_EQ(got.fields[1].size(), 8 * batch);
    ASSERT_EQ(number(got, 0, batch - 1), static_cast<std::int32_t>(want.indices[batch - 1]));
  }
}

TEST(Loader, StaysWithinItsRing) {
  const auto data = std::make_shared<CountingSet>();
  Loader loader(data, Sampler({.size = 12, .batch = 2}));
  loader.next();
  wait_until([&] { return data->filled >= 2; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data->filled, 2);
  loader.release();
  wait_until([&] { return data->filled >= 3; });
  EXPECT_EQ(data->filled, 3);
}

TEST(Loader, AnErrorArrivesAfterTheBatchesBeforeIt) {
  const auto data = std::make_shared<CountingSet>(5);
  Loader loader(data, Sampler({.size = 12, .batch = 2, .shuffle = false}), {}, 4);
  wait_until([&] { return data->failed.load(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the thread is gone now, its batches are not
  EXPECT_EQ(number(loader.next(), 0, 0), 0);
  EXPECT_EQ(number(loader.next(), 0, 0), 2);
  for (int i = 0; i < 3; ++i) expect_user_error([&] { loader.next(); }, {"cannot be read"});
}

// Large samples, and one that cannot be read.
class WideSet final : public Dataset {
 public:
  explicit WideSet(std::uint64_t bad = ~0ULL) : bad_(bad) {
    size_ = 40;
    fields_ = {{"x", DType::kI32, {50'000}, false}, {"n", DType::kI32, {}, false}};
  }
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst, const Augment&) const override {
    auto* to = reinterpret_cast<std::int32_t*>(dst);
    if (field == 0) most = std::max(most.load(), indices.size());
    for (const std::uint64_t index : indices) {
      if (index == bad_) throw UserError("sample cannot be read");
      for (std::int64_t i = 0; i < fields_[field].sample_shape.count(); ++i)
        *to++ = static_cast<std::int32_t>(index * 7);
    }
  }
  mutable std::atomic<std::size_t> most = 0;

 private:
  std::uint64_t bad_;
};

TEST(Loader, SeveralThreadsMakeTheSameBatches) {
  // Samples of a batch, and of one thread: two of them are worth none more.
  for (const auto& [batch, most] : std::map<std::uint64_t, std::size_t>{{1, 1}, {2, 2}, {13, 3}}) {
    const SamplerOptions options = {.size = 40, .batch = batch, .seed = 3};
    const auto shared = std::make_shared<WideSet>();
    Loader alone(std::make_shared<WideSet>(), Sampler(options));
    Loader together(shared, Sampler(options), {}, 2, {}, 0, 5);
    for (int i = 0; i < 5; ++i) {
      const Loader::Batch& want = alone.next();
      const Loader::Batch& got = together.next();
      for (const std::size_t field : {0U, 1U}) ASSERT_TRUE(std::ranges::equal(got.fields[field], want.fields[field]));
    }
    EXPECT_EQ(shared->most, most);
  }
}

TEST(Loader, AnErrorOfAnyThreadArrives) {
  for (const std::uint64_t bad : {0U, 6U, 12U}) {
    Loader loader(std::make_shared<WideSet>(bad), Sampler({.size = 40, .batch = 13, .shuffle = false}), {}, 2, {}, 0,
                  5);
    expect_user_error([&] { loader.next(); }, {"cannot be read"});
  }
}

TEST(Loader, StopsWhateverItIsDoing) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(std::make_shared<CountingSet>(), Sampler({.size = 12, .batch = 4}));
    for (int j = 0; j < i % 4; ++j) loader.next();
  }
}

class HugeSet final : public Dataset {
 public:
  HugeSet() {
    size_ = 1ULL << 40;
    fields_ = {{"huge", DType::kF32, {1LL << 40}, false}};
  }
  void fill(std::span<const std::uint64_t>, std::size_t, std::byte*, const Augment&) const override {}
};

TEST(Loader, ABatchThatNoMemoryHoldsIsRefused) {
  expect_user_error(
      [] { Loader loader(std::make_shared<HugeSet>(), Sampler({.size = 1ULL << 40, .batch = 1ULL << 30})); },
      {"'huge'", "memory"});
  expect_user_error(
      [] { Loader loader(std::make_shared<HugeSet>(), Sampler({.size = 1ULL << 40, .batch = 1ULL << 12})); },
      {"'huge'", "memory"});
}

}  // namespace
}  // namespace neap
