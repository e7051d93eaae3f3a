#include "services/worker/expert_meter.h"

#include <gtest/gtest.h>

#include "common/metrics/registry.h"

namespace lynx {
namespace {

TEST(ExpertMeter, MeansAreOfTheStepsSinceTheLastCall) {
  MetricsRegistry registry;
  const auto histogram = [&](const char* stage) -> prometheus::Histogram& {
    return registry.histogram("unique_experts", "U.", expert_count_bounds(), {{"stage", stage}});
  };
  auto& routed = histogram("routed");
  auto& activated = histogram("activated");
  ExpertMeter meter(routed, activated);
  EXPECT_EQ(meter.since_last().routed, 0) << "no step yet";
  routed.Observe(40);
  routed.Observe(50);
  activated.Observe(20);
  activated.Observe(30);
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
