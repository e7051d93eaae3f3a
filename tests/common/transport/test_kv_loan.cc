#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

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

std::uint64_t host_of(const std::string& boot_id) {
  std::istringstream in(boot_id);
  return kv_loan::host_of(in);
}

TEST(KvLoan, AHostIsItsBoot) {
  EXPECT_EQ(host_of("0d5a7b5e\n"), host_of("0d5a7b5e\n"));
  EXPECT_NE(host_of("0d5a7b5e\n"), host_of("0d5a7b5f\n"));
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  ASSERT_TRUE(boot_id.is_open());
  EXPECT_EQ(kv_loan::this_host(), kv_loan::host_of(boot_id));
}

TEST(KvLoan, AHostThatCannotBeToldIsNoOther) {
  EXPECT_NE(host_of(""), host_of(""));
  EXPECT_NE(host_of("\n"), host_of(""));
}

}  // namespace
}  // namespace lynx
