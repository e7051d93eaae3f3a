#include <gtest/gtest.h>

#include "services/router/admission_queue.h"

namespace lynx {
namespace {

TEST(AdmissionQueue, KeepsOrderAndDepths) {
  AdmissionQueue queue({2, 1});
  ManualClock clock;
  const auto at = [&](int ms) { return clock.now() + std::chrono::milliseconds(ms); };
  queue.push(10, 0, at(30));
  queue.push(11, 1, at(10));
  queue.push(12, 0, at(10));
  EXPECT_EQ(queue.flows(), (std::vector<std::uint64_t>{11, 12, 10}));
  EXPECT_FALSE(queue.has_room(0, 1));
  queue.erase(12);
  queue.erase(12);
  EXPECT_TRUE(queue.has_room(0, 1));
  EXPECT_FALSE(queue.has_room(0, 2));
  EXPECT_EQ(queue.first_that([](std::uint64_t) { return true; }), 11U);
  EXPECT_EQ(queue.first_that([](std::uint64_t flow) { return flow != 11; }), 10U);
  EXPECT_FALSE(queue.first_that([](std::uint64_t) { return false; }));
  EXPECT_EQ(queue.depth(1), 1U);
}

}  // namespace
}  // namespace lynx
