#include <gtest/gtest.h>

#include <cmath>

#include "loadtest/replay/statistics.h"

namespace lynx {
namespace {

TEST(Statistics, AsNumpyHasIt) {
  const auto s = summarize({4, 1, 3, 2});
  EXPECT_EQ(s.count, 4u);
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(1.25));
  EXPECT_DOUBLE_EQ(s.p50, 2.5);
  EXPECT_DOUBLE_EQ(s.p90, 3.7);
  EXPECT_DOUBLE_EQ(s.p99, 3.97);
  EXPECT_DOUBLE_EQ(s.max, 4);
}

TEST(Statistics, FewSamples) {
  EXPECT_EQ(summarize({}).count, 0u);
  EXPECT_EQ(summarize({}).p99, 0);
  const auto one = summarize({7});
  EXPECT_EQ(one.p50, 7);
  EXPECT_EQ(one.p99, 7);
  EXPECT_EQ(one.std, 0);
}

}  // namespace
}  // namespace lynx
