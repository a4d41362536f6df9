#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "device/device.h"
#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

TEST(Axes, CountFromEitherEnd) {
  EXPECT_EQ(axis_of(0, 3), 0);
  EXPECT_EQ(axis_of(2, 3), 2);
  EXPECT_EQ(axis_of(-1, 3), 2);
  EXPECT_EQ(axis_of(-3, 3), 0);
  for (const std::int64_t axis : {3, -4}) EXPECT_THROW(axis_of(axis, 3), UserError) << axis;
  EXPECT_THROW(axis_of(0, 0), UserError);
  EXPECT_EQ(axes_of({-1, 0}, 3), (Ints{2, 0}));
  EXPECT_THROW(axes_of({1, -2}, 3), UserError) << "the same axis by two names";
}

TEST(Axes, BitsDoNotMove) {
  EXPECT_THROW(movable({DType::kBits, {8}}), UserError);
  const TensorType floats{DType::kF32, {8}};
  EXPECT_EQ(&movable(floats), &floats);
}

TEST(Axes, UnknownShapesAreRefusedOrLeftToTheNumberOfElements) {
  const Dim unknown = Dim::symbol("?0");
  EXPECT_TRUE(is_unknown(unknown));
  EXPECT_FALSE(is_unknown(Dim::symbol("batch")));
  EXPECT_EQ(known_shape({Dim::symbol("batch"), 3}, "this"), (Shape{Dim::symbol("batch"), 3}));
  EXPECT_THROW(known_shape({unknown, 3}, "this"), UserError);
  EXPECT_EQ(shape_to_restore({unknown, 3}), (Shape{-1, 3}));
  EXPECT_THROW(shape_to_restore({unknown, unknown}), UserError) << "only one can be told";
}

TEST(Strided, DenseStridesAreRowMajor) {
  EXPECT_EQ(dense_strides({2, 3, 4}), (Ints{12, 4, 1}));
  EXPECT_TRUE(dense_strides({}).empty());
}

TEST(Strided, RefusesTooManyAxes) {
  const Ints sizes(StridedCopy::kMaxRank + 1, 1);
  EXPECT_THROW(copy_from({DType::kF32, {}}, sizes, dense_strides(sizes)), UserError);
}

TEST(Strided, MergesAxesThatLieBehindEachOther) {
  const TensorType f32{DType::kF32, {}};
  EXPECT_EQ(merged(copy_from(f32, {2, 3, 4}, {12, 4, 1})).rank, 1) << "dense";
  EXPECT_EQ(merged(copy_from(f32, {1, 1}, {1, 1})).rank, 0);
  const StridedCopy swapped = merged(copy_from(f32, {4, 2, 3}, {1, 12, 4}));  // [2, 3, 4] with its last axis first
  ASSERT_EQ(swapped.rank, 2);
  EXPECT_EQ(swapped.size[0], 4);
  EXPECT_EQ(swapped.size[1], 6);
  EXPECT_EQ(swapped.src[1], 4);
  EXPECT_EQ(merged(copy_from(f32, {2, 3, 4}, {4, 0, 1})).rank, 3) << "a repeated axis joins no other";
}

// Copies between random layouts; every element of the destination that is not written keeps its value.
class RandomCopies {
 public:
  explicit RandomCopies(unsigned seed) : random_(seed) {}

  StridedCopy next() {
    StridedCopy c{.element_bytes = 1 << below(4), .rank = below(5)};
    std::vector<int> order(static_cast<std::size_t>(c.rank));
    std::iota(order.begin(), order.end(), 0);
    for (int a = 0; a < c.rank; ++a) c.size[a] = below(8) == 0 ? 0 : 1 + below(19);
    lay_out(c, c.dst, order, false);
    lay_out(c, c.src, order, true);
    c.src_offset = below(5);
    c.dst_offset = below(5);
    return c;
  }

  static std::int64_t span(const StridedCopy& c, const std::int64_t* strides, std::int64_t offset) {
    std::int64_t last = offset;
    for (int a = 0; a < c.rank; ++a) last += std::max<std::int64_t>(c.size[a] - 1, 0) * strides[a];
    return (last + 1) * c.element_bytes;
  }

  std::vector<std::byte> bytes(std::int64_t count) {
    std::vector<std::byte> out(static_cast<std::size_t>(count));
    for (std::byte& b : out) b = static_cast<std::byte>(below(256));
    return out;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  // Axes in any order, with gaps between them; `repeats`: some with stride 0.
  void lay_out(const StridedCopy& c, std::int64_t* strides, std::vector<int>& order, bool repeats) {
    if (below(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    std::int64_t next = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const int axis = order[i];
      strides[axis] = repeats && below(4) == 0 ? 0 : next;
      next *= std::max<std::int64_t>(c.size[axis], 1);
      if (below(3) == 0) next += below(3);
    }
  }

  std::mt19937 random_;
};

TEST(Strided, KernelsCopyWhatPlainLoopsDo) {
  const auto device = make_cpu_device(2);
  RandomCopies random(7);
  for (int i = 0; i < 2000; ++i) {
    const StridedCopy c = random.next();
    const std::vector<std::byte> src = random.bytes(RandomCopies::span(c, c.src, c.src_offset));
    std::vector<std::byte> want = random.bytes(RandomCopies::span(c, c.dst, c.dst_offset));
    std::vector<std::byte> got = want;
    copy_plainly(c, src.data(), want.data());
    auto prepared = copy_simd({{.copy = c}});
    const std::byte* const in[] = {src.data()};
    std::byte* const out[] = {got.data()};
    auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared);
    ASSERT_NE(kernel, nullptr);
    (*kernel)->launch({.inputs = in, .outputs = out, .workspace = nullptr}, device->stream());
    ASSERT_EQ(got, want) << i;
  }
}

TEST(Strided, AddsAndClearsOnlyWhatBelongsToTheCopy) {
  // The middle column of [3, 3].
  const StridedCopy column{.rank = 1, .size = {3}, .src = {1}, .dst = {3}, .src_offset = 0, .dst_offset = 1};
  std::vector<float> matrix(9, 1.0F);
  const float more[] = {10, 20, 30};
  strided_table().add(column, more, matrix.data());
  EXPECT_EQ(matrix, (std::vector<float>{1, 11, 1, 1, 21, 1, 1, 31, 1}));
  strided_table().zero(column, matrix.data());
  EXPECT_EQ(matrix, (std::vector<float>{1, 0, 1, 1, 0, 1, 1, 0, 1}));
}

}  // namespace
}  // namespace neap::ops
