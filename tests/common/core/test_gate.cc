#include <gtest/gtest.h>

#include "common/core/clock.h"
#include "common/core/gate.h"

namespace lynx {
namespace {

TEST(Gate, AnEmptyGateIsIdleAtOnce) {
  Gate gate;
  int idle = 0;
  gate.close([&] { ++idle; });
  EXPECT_EQ(idle, 1);
  EXPECT_FALSE(gate.try_enter());
}

TEST(Gate, WaitsForTheLastHolderAndTellsOnce) {
  Gate gate;
  EXPECT_TRUE(gate.try_enter());
  EXPECT_TRUE(gate.try_enter());
  gate.leave();
  EXPECT_TRUE(gate.try_enter());
  int idle = 0;
  gate.close([&] { ++idle; });
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(gate.try_enter());
  EXPECT_EQ(gate.holders(), 2u);
  gate.leave();
  EXPECT_EQ(idle, 0);
  gate.leave();
  EXPECT_EQ(idle, 1);
}

TEST(ManualClock, MovesOnlyByHand) {
  ManualClock clock;
  const auto start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(seconds(clock.now() - start), 1.5);
}

}  // namespace
}  // namespace lynx
