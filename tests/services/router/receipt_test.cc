// The sums of a receipt.
#include "services/router/receipt.h"

#include <gtest/gtest.h>

namespace lynx {
namespace {

TEST(Receipt, OfNoStepsNothingHappened) {
  const Receipt receipt;
  EXPECT_EQ(receipt.steps(), 0U);
  EXPECT_EQ(receipt.remapped_share(), 0);
  EXPECT_EQ(receipt.router_mass_mean(), 1);
  EXPECT_EQ(receipt.router_mass_worst(), 1);
  EXPECT_EQ(receipt.batch_mean(), 0);
  EXPECT_EQ(receipt.batch_max(), 0U);
}

TEST(Receipt, SumsStepsAndChoices) {
  Receipt first, second, both;
  first.add(StepReceipt{.assignments = 10, .remapped = 1, .router_mass = 0.75F, .batch = 2});
  first.add(StepReceipt{.assignments = 10, .remapped = 4, .router_mass = 0.5F, .batch = 7});
  second.add(StepReceipt{.assignments = 20, .remapped = 5, .router_mass = 1, .batch = 3});
  EXPECT_EQ(first.steps(), 2U);
  EXPECT_EQ(first.remapped_share(), 0.25);
  EXPECT_EQ(first.router_mass_mean(), 0.625);
  EXPECT_EQ(first.router_mass_worst(), 0.5);
  EXPECT_EQ(first.batch_mean(), 4.5);
  EXPECT_EQ(first.batch_max(), 7U);
  both.add(first);
  both.add(second);
  EXPECT_EQ(both.steps(), 3U);
  EXPECT_EQ(both.remapped_share(), 0.25);
  EXPECT_EQ(both.router_mass_mean(), 0.75);
  EXPECT_EQ(both.router_mass_worst(), 0.5);
  EXPECT_EQ(both.batch_mean(), 4);
  EXPECT_EQ(both.batch_max(), 7U);
}

}  // namespace
}  // namespace lynx
