#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "services/engine/step_cost.h"

namespace lynx {
namespace {

struct Machine {
  double a, b, c;
  double noise = 0;
  std::mt19937 rng{1};

  StepWork work() {
    std::uniform_real_distribution<double> experts(1e6, 20e6);
    std::uniform_real_distribution<double> kv(0, 50e6);
    return {experts(rng), kv(rng)};
  }
  double seconds(const StepWork& w) {
    std::normal_distribution<double> jitter(0, noise);
    return a + b * w.expert_bytes + c * w.kv_bytes + (noise > 0 ? jitter(rng) : 0);
  }
  void run(StepCost& cost, int steps) {
    for (int i = 0; i < steps; ++i) {
      const StepWork w = work();
      cost.observe(w, seconds(w));
    }
  }
};

TEST(StepCost, SaysZeroBeforeItHasSeenAnything) {
  const StepCost cost;
  EXPECT_EQ(cost.predict({1e6, 1e6}), 0);
  EXPECT_EQ(cost.samples(), 0U);
}

TEST(StepCost, FindsTheThreeTerms) {
  Machine machine{2e-3, 1e-10, 3e-11};
  StepCost cost;
  machine.run(cost, 200);
  EXPECT_NEAR(cost.fixed_seconds(), 2e-3, 1e-6);
  EXPECT_NEAR(cost.seconds_per_expert_byte(), 1e-10, 1e-13);
  EXPECT_NEAR(cost.seconds_per_kv_byte(), 3e-11, 1e-13);
  EXPECT_NEAR(cost.predict({5e6, 10e6}), 2e-3 + 5e-4 + 3e-4, 1e-6);
}

TEST(StepCost, LivesWithNoise) {
  Machine machine{2e-3, 1e-10, 3e-11, 1e-4};
  StepCost cost;
  machine.run(cost, 5000);
  EXPECT_NEAR(cost.predict({10e6, 25e6}), 2e-3 + 1e-3 + 0.75e-3, 3e-5);
}

TEST(StepCost, FollowsAMachineThatSlowsDown) {
  StepCost cost(100);
  Machine quick{1e-3, 1e-10, 3e-11};
  quick.run(cost, 500);
  Machine slow{2e-3, 2e-10, 6e-11};
  slow.run(cost, 1500);
  EXPECT_NEAR(cost.predict({10e6, 25e6}), 2e-3 + 2e-3 + 1.5e-3, 1e-5);
}

TEST(StepCost, AMillionEqualStepsDoNotUpsetIt) {
  Machine machine{2e-3, 1e-10, 3e-11};
  const StepWork usual{5e6, 10e6};
  StepCost cost(50);
  for (int i = 0; i < 1'000'000; ++i) cost.observe(usual, machine.seconds(usual));
  EXPECT_NEAR(cost.predict(usual), 2.8e-3, 1e-9);
  for (int i = 0; i < 200; ++i)
    cost.observe(usual, 4e-3);  // a neighbour came: four memories later that is known
  EXPECT_NEAR(cost.predict(usual), 4e-3, 5e-5);
  machine.run(cost, 500);
  EXPECT_NEAR(cost.predict({10e6, 25e6}), 2e-3 + 1e-3 + 0.75e-3, 5e-5);
}

TEST(StepCost, IgnoresTimesThatAreNone) {
  StepCost cost;
  cost.observe({1, 1}, -1);
  cost.observe({1, 1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(cost.samples(), 0U);
}

}  // namespace
}  // namespace lynx
