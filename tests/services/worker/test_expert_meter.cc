#include <gtest/gtest.h>

#include "services/worker/expert_meter.h"

namespace lynx {
namespace {

TEST(ExpertMeter, MeansAreOfTheStepsSinceTheLastCall) {
  MetricsRegistry registry;
  ExpertMeter meter(registry);
  EXPECT_EQ(meter.since_last().routed, 0) << "nothing registered yet";
  auto& routed = registry.histogram("unique_experts", "U.", expert_count_bounds(), {{"stage", "routed"}});
  // Several series of one stage are one figure, whatever else they are labelled with.
  auto& layer0 = registry.histogram("unique_experts", "U.", expert_count_bounds(),
                                    {{"stage", "activated"}, {"layer", "0"}});
  auto& layer1 = registry.histogram("unique_experts", "U.", expert_count_bounds(),
                                    {{"stage", "activated"}, {"layer", "1"}});
  routed.Observe(40);
  routed.Observe(50);
  layer0.Observe(20);
  layer1.Observe(30);
  const ExpertMeans first = meter.since_last();
  EXPECT_EQ(first.routed, 45);
  EXPECT_EQ(first.activated, 25);
  routed.Observe(10);
  const ExpertMeans second = meter.since_last();
  EXPECT_EQ(second.routed, 10) << "the older ones are no part of it";
  EXPECT_EQ(second.activated, 0) << "no step";
}

}  // namespace
}  // namespace lynx
