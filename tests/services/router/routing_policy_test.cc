#include <gtest/gtest.h>

#include "services/router/policy.h"

namespace lynx {
namespace {

TEST(RoutingPolicy, RoundRobinTakesTurnsThoughWorkersComeAndGo) {
  const std::vector<WorkerLoad> all{{1, 0, 1, 0, 1}, {2, 0, 1, 0, 1}, {5, 0, 1, 0, 1}};
  EXPECT_EQ(round_robin(all, 0), 0U);
  EXPECT_EQ(round_robin(all, 1), 1U);
  EXPECT_EQ(round_robin(all, 2), 2U);
  EXPECT_EQ(round_robin(all, 5), 0U);
  const std::vector<WorkerLoad> without_two{all[0], all[2]};
  EXPECT_EQ(round_robin(without_two, 1), 1U);
}

TEST(RoutingPolicy, LeastLoadedLooksAtTheScarcerResource) {
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 3, 16, 10, 100}, {2, 2, 16, 10, 100}}, 0), 1U);
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 1, 16, 90, 100}, {2, 8, 16, 10, 100}}, 0), 1U);
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 8, 64, 10, 100}, {2, 4, 16, 10, 100}}, 0), 0U)
      << "a larger worker takes more";
  const std::vector<WorkerLoad> equal{{1, 1, 8, 1, 9}, {2, 1, 8, 1, 9}, {3, 1, 8, 1, 9}};
  EXPECT_EQ(least_loaded(equal, 1), 1U);
  EXPECT_EQ(least_loaded(equal, 3), 0U);
}

TEST(RoutingPolicy, NamesAreKnown) {
  EXPECT_NE(find_routing_policy("round_robin"), nullptr);
  EXPECT_NE(find_routing_policy("least_loaded"), nullptr);
  EXPECT_EQ(find_routing_policy("random"), nullptr);
}

}  // namespace
}  // namespace lynx
