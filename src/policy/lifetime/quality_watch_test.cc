#include "policy/lifetime/quality_watch.h"

#include <gtest/gtest.h>

namespace neap {
namespace {

TEST(QualityWatch, OneWildStepIsNotConsistent) {
  QualityWatch watch;
  watch.expect(0.02);
  for (int i = 0; i < 20; ++i) watch.add({.own = 0.02, .last_value = 0.1});
  watch.add({.own = 50, .last_value = 0.1});
  EXPECT_FALSE(watch.is_consistently_wrong());
}

TEST(QualityWatch, HalfOfTheLastStepsIs) {
  QualityWatch watch;
  watch.expect(0.02);
  for (int i = 0; i < 20; ++i) watch.add({.own = 0.02, .last_value = 1});
  for (int i = 0; i < 3; ++i) watch.add({.own = 0.05, .last_value = 1});
  EXPECT_FALSE(watch.is_consistently_wrong());
  watch.add({.own = 0.05, .last_value = 1});
  EXPECT_TRUE(watch.is_consistently_wrong());
}

TEST(QualityWatch, AQuarterOfManyStepsIsToo) {
  QualityWatch watch;
  watch.expect(0.02);
  for (int i = 0; i < 32; ++i) watch.add({.own = i % 4 == 0 ? 0.5 : 0.01, .last_value = 1});
  EXPECT_TRUE(watch.is_consistently_wrong());
}

TEST(QualityWatch, WorseThanTheLastValueIsWrongWhateverWasExpected) {
  QualityWatch watch;
  watch.expect(1);
  for (int i = 0; i < 8; ++i) watch.add({.own = 0.2, .last_value = 0.1});
  EXPECT_TRUE(watch.is_consistently_wrong());
}

TEST(QualityWatch, TinyErrorsAreFine) {
  QualityWatch watch;
  for (int i = 0; i < 40; ++i) watch.add({.own = 0.004, .last_value = 0});
  EXPECT_FALSE(watch.is_consistently_wrong());
}

}  // namespace
}  // namespace neap
