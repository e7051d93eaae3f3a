#include "common/core/repeated.h"

#include <gtest/gtest.h>

namespace lynx {
namespace {

TEST(Repeated, IsToldAtOnceAndThenOnceAMinuteWithItsNumber) {
  Repeated repeated;
  ManualClock clock;
  EXPECT_EQ(repeated.tell("down", clock.now()), 1U);
  for (int second = 1; second < 60; ++second) {
    clock.advance(std::chrono::seconds(1));
    EXPECT_FALSE(repeated.tell("down", clock.now()));
  }
  EXPECT_EQ(repeated.tell("another", clock.now()), 1U);
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(repeated.tell("down", clock.now()), 60U);
  EXPECT_FALSE(repeated.tell("down", clock.now()));
  EXPECT_EQ(times_text(1), "");
  EXPECT_EQ(times_text(60), " (60 times since it was told last)");
}

TEST(Repeated, RemembersABoundedNumberOfTexts) {
  Repeated repeated;
  const ManualClock clock;
  int told = 0;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 1000; ++i) told += repeated.tell(std::to_string(i), clock.now()) ? 1 : 0;
  EXPECT_GT(told, 1000) << "it forgets rather than grow";
  EXPECT_LE(told, 2000);
}

}  // namespace
}  // namespace lynx
