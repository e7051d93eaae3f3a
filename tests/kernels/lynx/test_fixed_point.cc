#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/lynx/fixed_point.h"

namespace lynx {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(FixedPoint, ExpIsWithinItsStatedError) {
  double worst = 0;
  for (float gap = 0; gap < 24; gap += 0.00037F) {
    const double exact = std::exp(-static_cast<double>(gap));
    const double error = std::abs(exp_minus(gap) / 2147483648.0 - exact);
    worst = std::max(worst, (error - 0x1p-31) / exact);
  }
  EXPECT_LT(worst, 0x1p-27);
}

TEST(FixedPoint, ExpNeverRises) {
  std::uint32_t before = exp_minus(0);
  EXPECT_EQ(before, kMassOne);
  for (float gap = 0; gap < 23; gap += 0.0001F) {
    const std::uint32_t now = exp_minus(gap);
    EXPECT_LE(now, before) << gap;
    before = now;
  }
  EXPECT_EQ(exp_minus(kInf), 0u);
  EXPECT_GE(exp_minus(std::numeric_limits<float>::denorm_min()), kMassOne - 2);
}

TEST(FixedPoint, SigmoidIsCloseAndBounded) {
  for (float z = -30; z < 30; z += 0.0071F)
    EXPECT_NEAR(sigmoid_mass(z) / 2147483648.0, 1 / (1 + std::exp(-static_cast<double>(z))), 1e-8) << z;
  EXPECT_EQ(sigmoid_mass(kInf), kMassOne);
  EXPECT_EQ(sigmoid_mass(-kInf), 0u);
  EXPECT_EQ(sigmoid_mass(0), kMassOne / 2);
}

TEST(FixedPoint, GapsOfInfinitiesAreDefined) {
  EXPECT_EQ(gap_below(kInf, kInf), 0);
  EXPECT_EQ(gap_below(-kInf, -kInf), 0);
  EXPECT_EQ(gap_below(kInf, 3), kInf);
  EXPECT_EQ(gap_below(3, -kInf), kInf);
}

TEST(FixedPoint, BinsAreHalfOpenAndEndInTheLast) {
  EXPECT_EQ(affinity_bin(0, 2, 3), 0u);
  EXPECT_EQ(affinity_bin(0.4999F, 2, 3), 0u);
  EXPECT_EQ(affinity_bin(0.5F, 2, 3), 1u);
  EXPECT_EQ(affinity_bin(1.4999F, 2, 3), 2u);
  EXPECT_EQ(affinity_bin(1.5F, 2, 3), 3u);
  EXPECT_EQ(affinity_bin(1e30F, 2, 3), 3u);
  EXPECT_EQ(affinity_bin(kInf, 0, 3), 3u) << "inf * 0 has no bin";
  EXPECT_EQ(affinity_bin(0, std::numeric_limits<float>::max(), 3), 0u);
}

}  // namespace
}  // namespace lynx
