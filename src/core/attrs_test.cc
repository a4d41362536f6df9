#include "neap/attrs.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

const Attrs kAttrs = {{"axis", std::int64_t{3}}, {"eps", 0.5},           {"mode", std::string("up")},
                      {"perm", Ints{1, 0}},      {"shape", Shape{2, 3}}, {"scales", std::vector<double>{1.5}}};

TEST(Attrs, GivesWhatWasSet) {
  EXPECT_EQ(kAttrs.integer("axis"), 3);
  EXPECT_EQ(kAttrs.real("eps"), 0.5);
  EXPECT_EQ(kAttrs.text("mode", ""), "up");
  EXPECT_EQ(kAttrs.ints("perm"), (Ints{1, 0}));
  EXPECT_EQ(kAttrs.shape("shape"), (Shape{2, 3}));
  EXPECT_EQ(kAttrs.size(), 6U);
}

TEST(Attrs, AnIntegerServesAsAReal) { EXPECT_EQ(kAttrs.real("axis"), 3.0); }

TEST(Attrs, FallbacksAreForMissingOnes) {
  EXPECT_EQ(kAttrs.integer("none", 7), 7);
  EXPECT_EQ(kAttrs.integer("axis", 7), 3);
  EXPECT_EQ(kAttrs.real("none", 7.5), 7.5);
  EXPECT_EQ(kAttrs.text("none", "x"), "x");
  EXPECT_EQ(kAttrs.ints("none", {4}), Ints{4});
}

TEST(Attrs, MissingOrOfAnotherType) {
  EXPECT_THROW(kAttrs.integer("none"), UserError);
  EXPECT_THROW(kAttrs.real("none"), UserError);
  EXPECT_THROW(kAttrs.ints("none"), UserError);
  EXPECT_THROW(kAttrs.shape("none"), UserError);
  EXPECT_THROW(kAttrs.integer("eps"), UserError);
  EXPECT_THROW(kAttrs.integer("eps", 1), UserError);
  EXPECT_THROW(kAttrs.real("mode"), UserError);
  EXPECT_THROW(kAttrs.shape("perm"), UserError);
}

TEST(Attrs, Equality) {
  Attrs other = kAttrs;
  EXPECT_EQ(other, kAttrs);
  other.set("axis", std::int64_t{4});
  EXPECT_FALSE(other == kAttrs);
}

}  // namespace
}  // namespace neap
