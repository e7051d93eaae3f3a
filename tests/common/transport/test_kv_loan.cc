#include <gtest/gtest.h>

#include "common/transport/kv_loan.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kHost = 7;

TEST(KvLoan, EndsAtItsDeadlineOnTheHostWhoseClockItIs) {
  ManualClock clock;
  clock.advance(5s);
  kv_wire::Push push;
  kv_loan::lend(push, clock.now() + 1s, kHost);
  EXPECT_TRUE(kv_loan::still_lent(push, clock.now() + 999ms, kHost));
  const Status over = kv_loan::still_lent(push, clock.now() + 1s, kHost);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(kv_loan::still_lent(push, clock.now() + 1s, kHost + 1)) << "another host's clock";
}

TEST(KvLoan, WhatIsNotLentHasNoEnd) {
  EXPECT_TRUE(kv_loan::still_lent(kv_wire::Push{}, Clock::time_point::max(), 0));
}

TEST(KvLoan, ADeadlineFarAwayOrInThePastIsOne) {
  kv_wire::Push push;
  kv_loan::lend(push, Clock::time_point::max(), kHost);
  EXPECT_TRUE(kv_loan::still_lent(push, Clock::time_point{} + 1s, kHost));
  kv_loan::lend(push, Clock::time_point{} - 1s, kHost);
  EXPECT_FALSE(kv_loan::still_lent(push, Clock::time_point{} + 1s, kHost));
}

TEST(KvLoan, AHostKnowsItself) { EXPECT_EQ(kv_loan::this_host(), kv_loan::this_host()); }

}  // namespace
}  // namespace lynx
