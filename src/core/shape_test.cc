#include "neap/shape.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

const Dim kBatch = Dim::symbol("batch");
const Dim kTime = Dim::symbol("time");

TEST(Dim, Numbers) {
  EXPECT_EQ(Dim(3) * Dim(4), Dim(12));
  EXPECT_EQ(Dim(12) / Dim(4), Dim(3));
  EXPECT_EQ(Dim(12).number(), 12);
  EXPECT_TRUE(Dim().is_number());
  EXPECT_EQ(Dim().number(), 0);
}

TEST(Dim, Symbols) {
  EXPECT_FALSE(kBatch.is_number());
  EXPECT_EQ(kBatch, Dim::symbol("batch"));
  EXPECT_NE(kBatch, kTime);
  EXPECT_EQ(kBatch * kTime, kTime * kBatch);
  EXPECT_EQ(Dim(2) * kBatch * Dim(3), Dim(6) * kBatch);
  EXPECT_NE(kBatch * kBatch, kBatch);
  EXPECT_THROW(kBatch.number(), InternalError);
}

TEST(Dim, Quotients) {
  EXPECT_EQ(kBatch * kTime / kBatch, kTime);
  EXPECT_EQ(Dim(8) * kBatch / Dim(4), Dim(2) * kBatch);
  EXPECT_EQ(kBatch * kBatch / kBatch, kBatch);
  EXPECT_EQ(kBatch / kBatch, Dim(1));
  EXPECT_EQ(kBatch / kTime, Dim::unknown());
  EXPECT_EQ(Dim(3) * kBatch / Dim(2), Dim::unknown());
  EXPECT_EQ(kBatch / Dim(0), Dim::unknown());
  EXPECT_EQ(Dim::unknown() / Dim::unknown(), Dim::unknown());
}

TEST(Dim, TooManySymbolsAreUnknown) {
  Dim d = 1;
  for (int i = 0; i < Dim::kMaxSymbols; ++i) d = d * kBatch;
  EXPECT_NE(d, Dim::unknown());
  EXPECT_EQ(d * kBatch, Dim::unknown());
}

TEST(Dim, OverflowIsRefused) { EXPECT_THROW(Dim(INT64_MAX) * Dim(2), UserError); }

TEST(Dim, Text) {
  for (const Dim& d : {Dim(0), Dim(7), Dim(-1), kBatch, Dim(4) * kTime, kBatch * kTime * kTime, Dim::unknown()}) {
    EXPECT_EQ(Dim::parse(d.text()), d) << d.text();
  }
  EXPECT_EQ((Dim(4) * kTime).text(), "4*time");
  for (const char* bad : {"", "*", "4*", "*time", "a b", "4x", "time+1", "99999999999999999999"}) {
    EXPECT_THROW(Dim::parse(bad), UserError) << bad;
  }
}

TEST(Dim, Bind) {
  EXPECT_EQ((Dim(4) * kBatch * kTime).bind({{"batch", 3}, {"time", 5}}), Dim(60));
  EXPECT_EQ((Dim(4) * kBatch * kTime).bind({{"batch", 3}}), Dim(12) * kTime);
  EXPECT_EQ(Dim(7).bind({{"batch", 3}}), Dim(7));
}

TEST(Shape, Axes) {
  const Shape s = {2, kBatch, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s[-1], Dim(4));
  EXPECT_EQ(s[1], kBatch);
  EXPECT_EQ(s.size(0), 2);
  EXPECT_THROW(s[3], InternalError);
  EXPECT_THROW(s[-4], InternalError);
  EXPECT_FALSE(s.is_static());
}

TEST(Shape, Elements) {
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).count(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).count(), 0);
  EXPECT_EQ((Shape{2, kBatch, 4}).elements(), Dim(8) * kBatch);
  EXPECT_EQ(Shape::of({2, 3}).sizes(), (std::vector<std::int64_t>{2, 3}));
}

TEST(Shape, Text) {
  for (const Shape& s : {Shape(), Shape{5}, Shape{kBatch, 4, Dim(2) * kTime}}) EXPECT_EQ(Shape::parse(s.text()), s);
  for (const char* bad : {"", "[", "]", "2,3", "[2,,3]", "[2,3", "[x y]"}) {
    EXPECT_THROW(Shape::parse(bad), UserError) << bad;
  }
  EXPECT_THROW(Shape::parse("[2,]"), UserError);
}

TEST(Shape, Bind) { EXPECT_EQ((Shape{kBatch, 4}).bind({{"batch", 3}}), (Shape{3, 4})); }

TEST(Broadcast, FollowsNumpy) {
  EXPECT_EQ(broadcast({2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({2, 1}, {1, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast({}, {4}), (Shape{4}));
  EXPECT_EQ(broadcast({5, 1, 3}, {4, 1}), (Shape{5, 4, 3}));
  EXPECT_THROW(broadcast({2, 3}, {2}), UserError);
}

TEST(Broadcast, Symbols) {
  EXPECT_EQ(broadcast({kBatch, 3}, {3}), (Shape{kBatch, 3}));
  EXPECT_EQ(broadcast({kBatch, 1}, {1, kTime}), (Shape{kBatch, kTime}));
  EXPECT_EQ(broadcast({kBatch}, {kBatch}), (Shape{kBatch}));
}

}  // namespace
}  // namespace neap
