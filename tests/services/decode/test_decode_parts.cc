#include <gtest/gtest.h>

#include "services/decode/landing.h"
#include "services/decode/retry_after.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

TEST(Landing, IsCompleteWhenEveryBlockOfEveryLayerIsIn) {
  Landing landing(2, 3);
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    for (std::uint32_t block = 0; block < 3; ++block) {
      EXPECT_FALSE(landing.complete());
      landing.mark(layer, block);
      landing.mark(layer, block);  // again: counts once
    }
  EXPECT_TRUE(landing.complete());
}

TEST(RetryAfter, IsWhenEnoughBlocksAreFree) {
  const std::vector<Holder> holders{{100, 10}, {10, 2}, {50, 4}};
  EXPECT_EQ(retry_after(holders, {2, 0.01}), milliseconds(100));
  EXPECT_EQ(retry_after(holders, {3, 0.01}), milliseconds(500));
  EXPECT_EQ(retry_after(holders, {7, 0.01}), milliseconds(1000));
  EXPECT_EQ(retry_after(holders, {0, 0.01}), milliseconds(100));  // a slot: the first to end
}

TEST(RetryAfter, StaysWithinBounds) {
  EXPECT_EQ(retry_after({}, {0, 0.01}), milliseconds(10));
  EXPECT_EQ(retry_after({{1'000'000, 1}}, {1, 10}), milliseconds(30'000));
  EXPECT_GT(retry_after({{100, 1}}, {1, 0}), milliseconds(100));  // step time not known yet
}

}  // namespace
}  // namespace lynx
