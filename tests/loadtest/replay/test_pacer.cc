#include <gtest/gtest.h>

#include "loadtest/replay/pacer.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

std::vector<PlannedRequest> requests_at(std::initializer_list<std::chrono::milliseconds> times) {
  std::vector<PlannedRequest> out;
  for (const auto time : times) {
    out.emplace_back();
    out.back().at = time;
  }
  return out;
}

TEST(Pacer, GivesEachRequestOnceWhenItsTimeComes) {
  const auto requests = requests_at({0ms, 100ms, 100ms, 250ms});
  ManualClock clock;
  clock.advance(5s);  // the run does not start with the clock
  Pacer pacer(requests, clock.now());
  EXPECT_EQ(pacer.take(clock.now())->index, 0u);
  EXPECT_FALSE(pacer.take(clock.now()));
  EXPECT_EQ(*pacer.next_at() - clock.now(), 100ms);
  clock.advance(99ms);
  EXPECT_FALSE(pacer.take(clock.now()));
  clock.advance(1ms);
  EXPECT_EQ(pacer.take(clock.now())->index, 1u);
  EXPECT_EQ(pacer.take(clock.now())->index, 2u);
  EXPECT_FALSE(pacer.take(clock.now()));
}

TEST(Pacer, ASlowSenderIsLateAndSkipsNothing) {
  const auto requests = requests_at({0ms, 100ms, 200ms});
  ManualClock clock;
  Pacer pacer(requests, clock.now());
  clock.advance(150ms);
  EXPECT_EQ(pacer.take(clock.now())->lateness, 150ms);
  EXPECT_EQ(pacer.take(clock.now())->lateness, 50ms);
  EXPECT_FALSE(pacer.take(clock.now()));
  clock.advance(50ms);
  EXPECT_EQ(pacer.take(clock.now())->lateness, 0ms);
  EXPECT_FALSE(pacer.next_at());
  EXPECT_FALSE(pacer.take(clock.now()));
}

}  // namespace
}  // namespace lynx
