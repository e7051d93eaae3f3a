// Sequences that end on their first token say of their workers' transfers what all others do.
#include "tests/services/router/put_aside_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

// A request that ends on its first token is over for its client before its last pushes are.
class LastPushesDispatch : public PutAsideDispatch {
 protected:
  LastPushesDispatch() {
    bench_.dispatcher.worker_down(bench_.workers["d"], "not in this test");
    bench_.sender.frames.clear();
  }
  void finish_one() {
    const auto sent = bench_.submit(1, 1);
    reserve_ = bench_.take(Sent::kReserve);
    bench_.reserved(reserve_);
    prefill_ = bench_.take(Sent::kPrefill);
    bench_.first_token(prefill_, 50, 0, TokenFinish::kLength);
    EXPECT_EQ(sent.client->finished, 1);
    EXPECT_TRUE(bench_.all_released());
    EXPECT_EQ(bench_.count(Sent::kCancel), 0U) << "the pushes go on";
  }
  double times_aside() { return bench_.metric("lynx_worker_put_aside_total{worker=\"bad\"}"); }
  SentFrame reserve_;
  SentFrame prefill_;
};

TEST_F(LastPushesDispatch, TheirSuccessCounts) {
  for (int i = 0; i < 8; ++i) {
    finish_one();
    if (i % 3 == 2) {
      bench_.handed_over(prefill_);
    } else {
      bench_.ended(prefill_, ErrorCode::kUnavailable, true);
      EXPECT_EQ(bench_.take(Sent::kCancel).to, reserve_.to);
      EXPECT_EQ(bench_.take(Sent::kCancel).to, prefill_.to);
    }
  }
  EXPECT_EQ(times_aside(), -1);
}

TEST_F(LastPushesDispatch, TheirFailureCountsWhoeverTellsIt) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(times_aside(), -1);
    finish_one();
    bench_.ended(i % 2 == 0 ? prefill_ : reserve_, ErrorCode::kCorrupt, true);
    bench_.ended(i % 2 == 0 ? reserve_ : prefill_, ErrorCode::kCorrupt, true);  // once for each request
    bench_.sender.frames.clear();
  }
  EXPECT_EQ(times_aside(), 1);
}

TEST_F(LastPushesDispatch, ThoseThatDoNotEndAreCancelled) {
  finish_one();
  pass(milliseconds(1500));
  EXPECT_EQ(bench_.count(Sent::kCancel), 0U);
  pass(milliseconds(1000));
  EXPECT_EQ(bench_.count(Sent::kCancel), 2U);
  bench_.handed_over(prefill_);  // too late to say anything
  EXPECT_EQ(bench_.count(Sent::kCancel), 2U);
}

}  // namespace
}  // namespace lynx::testing
