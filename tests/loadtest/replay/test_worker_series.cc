#include <gtest/gtest.h>

#include <cmath>

#include "loadtest/replay/worker_series.h"

namespace lynx {
namespace {

WorkerSample sample(double at, double steps, double routed, double activated) {
  WorkerSample s{.at_s = at};
  s.decode_steps = s.routed_count = s.activated_count = s.batch_count = steps;
  s.routed_sum = routed * steps;
  s.activated_sum = activated * steps;
  s.batch_sum = 8 * steps;
  s.step_seconds = 0.01 * steps;
  s.kv_bytes = 1000 * at;
  s.blocks = {{"free", 75}, {"active", 25}};
  return s;
}

TEST(WorkerSeries, ReducesAScrape) {
  MetricsText text;
  text.add(
      "lynx_unique_experts_sum{layer=\"0\",stage=\"routed\"} "
      "10\nlynx_unique_experts_sum{layer=\"1\",stage=\"routed\"} 20\n"
      "lynx_unique_experts_count{stage=\"routed\"} 2\nlynx_step_seconds_count{phase=\"decode\"} 7\n"
      "lynx_step_seconds_sum{phase=\"decode\"} 0.5\nlynx_step_seconds_sum{phase=\"prefill\"} 0.25\n"
      "lynx_kv_blocks{state=\"free\"} 3\nlynx_kv_blocks{state=\"leased\"} 1\n");
  const WorkerSample s = reduce(text, 4);
  EXPECT_EQ(s.at_s, 4);
  EXPECT_EQ(s.routed_sum, 30);
  EXPECT_EQ(s.routed_count, 2);
  EXPECT_EQ(s.decode_steps, 7);
  EXPECT_EQ(s.step_seconds, 0.75);
  EXPECT_EQ(s.blocks, (std::map<std::string, double>{{"free", 3}, {"leased", 1}}));
}

TEST(WorkerSeries, CurvesAreOfTheTimeBetweenTwoLooks) {
  WorkerHistory decode{.name = "d",
                       .samples = {sample(0, 0, 40, 20), sample(1, 50, 40, 20), sample(2, 50, 40, 20)}};
  const auto curves = worker_curves({decode});
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_TRUE(curves[0].decodes);
  ASSERT_EQ(curves[0].at_s, (std::vector<double>{1, 2}));
  EXPECT_DOUBLE_EQ(curves[0].busy[0], 0.5);
  EXPECT_EQ(curves[0].busy[1], 0);
  EXPECT_EQ(curves[0].batch[0], 8);
  EXPECT_TRUE(std::isnan(curves[0].batch[1])) << "no step is no batch of 0";
  EXPECT_EQ(curves[0].blocks_used[0], 0.25);
}

TEST(WorkerSeries, ExpertsAreOfDecodeWorkersKvOfAll) {
  WorkerHistory decode{.name = "d", .samples = {sample(0, 0, 0, 0), sample(1, 50, 40, 20)}};
  WorkerHistory prefill{.name = "p", .samples = {sample(0, 0, 0, 0), sample(1, 50, 64, 64)}};
  for (WorkerSample& s : prefill.samples) std::swap(s.decode_steps, s.prefill_steps);
  const FleetCurves fleet = fleet_curves({decode, prefill});
  ASSERT_EQ(fleet.at_s.size(), 1u);
  EXPECT_EQ(fleet.routed[0], 40);
  EXPECT_EQ(fleet.activated[0], 20);
  EXPECT_EQ(fleet.layer_steps[0], 50);
  EXPECT_EQ(fleet.batch[0], 8);
  EXPECT_EQ(fleet.kv_bytes_per_s[0], 2000);
  EXPECT_TRUE(std::isnan(fleet.kv_ms[0]));
}

TEST(WorkerSeries, ARestartedWorkerCountsFromZeroAndNoneIsNoCurve) {
  WorkerHistory reborn{.name = "d", .samples = {sample(0, 100, 40, 20), sample(1, 10, 40, 20)}};
  EXPECT_EQ(fleet_curves({reborn}).routed[0], 40);
  EXPECT_TRUE(fleet_curves({}).at_s.empty());
  EXPECT_TRUE(fleet_curves({{.name = "never", .samples = {}}}).at_s.empty());
}

}  // namespace
}  // namespace lynx
