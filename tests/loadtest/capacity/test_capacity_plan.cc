#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "loadtest/capacity/capacity_plan.h"
#include "loadtest/replay/synthesizer.h"
#include "tests/loadtest/capacity/simple_fleet.h"

namespace lynx {
namespace {

using testing::every;
using testing::flat_cost;

TEST(CapacityPlan, AgreesWithACaseWorkedOutByHand) {
  // Prompts take 0.9 s and come every 0.2 s: 4.5 of them at a time, so 5 prefill workers. An answer of 101
  // tokens takes 100 steps of 10 ms, 1 s: 5 at a time, and a batch of 4 is one too few: 2 decode workers.
  const auto requests = every(0.2, 500, 100, 101);
  const WorkerCost cost = flat_cost(0.9, 0.01, 4);
  const auto plan = plan_capacity(requests, cost, {.ttft_s = 1, .tpot_s = 0.0105, .attainment = 0.99});
  ASSERT_TRUE(plan.answer.has_value()) << plan.why_not;
  EXPECT_EQ(plan.answer->fleet.prefill, 5u);
  EXPECT_EQ(plan.answer->fleet.decode, 2u);
  EXPECT_EQ(plan.answer->both_met, 1);
  EXPECT_NEAR(plan.least_prefill, 4.5, 0.02);
  EXPECT_NEAR(plan.least_decode, 101 / 0.2 * 0.01 / 4, 0.01);
  EXPECT_EQ(plan.largest_batch, 4);
  EXPECT_NEAR(plan.mean_context, 150.5, 0.1);
  ASSERT_EQ(plan.nearby.size(), 5u);
  EXPECT_LT(plan.nearby[0].both_met, 0.99) << "one decode worker less";
  EXPECT_LT(plan.nearby[1].both_met, 0.99) << "one prefill worker less";
}

TEST(CapacityPlan, IsTheSmallestFleetThatDoesIt) {
  const auto trace =
      synthesize({.duration_s = 60, .rate = 8, .gap_cv = 1.5, .burst = 2, .on_s = 5, .off_s = 10, .seed = 4});
  ASSERT_TRUE(trace.ok());
  const auto workload = plan_workload(*trace, {.lengths = LengthMode::kKeep}, {{.name = "all", .share = 1}});
  ASSERT_TRUE(workload.ok());
  const WorkerCost cost = flat_cost(0.12, 0.02, 3);
  const CapacityGoal goal{.ttft_s = 0.5, .tpot_s = 0.03, .attainment = 0.95};
  const auto plan = plan_capacity(workload->requests, cost, goal);
  ASSERT_TRUE(plan.answer.has_value());
  std::uint32_t smallest = 1000;
  for (std::uint32_t m = 1; m < 12; ++m)
    for (std::uint32_t n = 1; n < 16; ++n)
      if (judge(workload->requests, cost, {m, n}, goal).both_met >= goal.attainment)
        smallest = std::min(smallest, m + n);
  EXPECT_EQ(plan.answer->fleet.total(), smallest);
}

TEST(CapacityPlan, SaysWhyNoFleetDoesIt) {
  const auto requests = every(1, 10, 100, 20);
  const auto slow_prompt = plan_capacity(requests, flat_cost(2, 0.01, 4), {.ttft_s = 1, .tpot_s = 0.05});
  EXPECT_FALSE(slow_prompt.answer.has_value());
  EXPECT_NE(slow_prompt.why_not.find("100.0 % of the prompts"), std::string::npos) << slow_prompt.why_not;
  const auto slow_step = plan_capacity(requests, flat_cost(0.1, 0.1, 4), {.ttft_s = 1, .tpot_s = 0.05});
  EXPECT_FALSE(slow_step.answer.has_value());
  EXPECT_NE(slow_step.why_not.find("100.0 % of the requests step slower"), std::string::npos)
      << slow_step.why_not;
  EXPECT_FALSE(
      plan_capacity(requests, flat_cost(0.1, 0.01, 4, 50), {.ttft_s = 1, .tpot_s = 0.05}).answer.has_value());
  EXPECT_FALSE(plan_capacity({}, flat_cost(1, 1, 1), {}).answer.has_value());
}

TEST(CapacityPlan, FewerExpertsNeedFewerWorkers) {
  const ModelShape& model = known_model_shapes()[0];
  const auto requests = every(0.01, 3000, 500, 300);
  const CapacityGoal goal{.ttft_s = 1, .tpot_s = 0.009, .attainment = 0.99};
  std::uint32_t decode[2] = {0, 0};
  for (const auto policy : {UniqueExperts::Policy::kExact, UniqueExperts::Policy::kLynx}) {
    const auto cost = WorkerCost::make(model, {}, {}, {model, policy});
    const auto plan = plan_capacity(requests, *cost, goal);
    ASSERT_TRUE(plan.answer.has_value()) << plan.why_not;
    decode[policy == UniqueExperts::Policy::kLynx ? 1 : 0] = plan.answer->fleet.decode;
  }
  EXPECT_LT(decode[1], decode[0]);
}

}  // namespace
}  // namespace lynx
