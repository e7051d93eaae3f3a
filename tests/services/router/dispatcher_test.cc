// One sequence from its Reserve to its end, against workers that the test plays: what is sent, what the
// client sees, what is freed.
#include "services/router/dispatcher.h"

#include <gtest/gtest.h>

#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

TEST(Dispatcher, RunsASequenceFromReserveToTheLastToken) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(3);
  const SentFrame reserve = bench.take(Sent::kReserve);
  EXPECT_EQ(reserve.to, bench.workers["d"]);
  EXPECT_EQ(reserve.tokens, (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(reserve.generated, 0U);
  bench.reserved(reserve);
  const SentFrame prefill = bench.take(Sent::kPrefill);
  EXPECT_EQ(prefill.to, bench.workers["p"]);
  EXPECT_EQ(prefill.request, reserve.request);
  bench.first_token(prefill, 50);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50}));
  bench.handed_over(prefill);
  bench.token(reserve, 51, 1);
  bench.token(reserve, 52, 2, TokenFinish::kLength);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50, 51, 52}));
  EXPECT_EQ(sent.client->finish, TokenFinish::kLength);
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(bench.count(Sent::kCancel), 0U) << "both sides had ended by themselves";
  EXPECT_TRUE(bench.all_released());
  EXPECT_EQ(bench.dispatcher.live(), 0U);
}

// Field report 8.
TEST(Dispatcher, MaxTokensHoldsWhateverTheWorkersDo) {
  DispatchBench bench;
  bench.add_pair();
  const auto one = bench.submit(1);
  const SentFrame prefill = bench.reach_prefill();
  bench.first_token(prefill, 50);  // does not say that it is the last
  EXPECT_EQ(one.client->tokens.size(), 1U);
  EXPECT_EQ(one.client->finish, TokenFinish::kLength);
  EXPECT_EQ(one.client->finished, 1);
  EXPECT_EQ(bench.count(Sent::kCancel), 2U);

  const auto two = bench.submit(2);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.first_token(bench.take(Sent::kPrefill), 50);
  for (std::uint32_t i = 1; i < 4; ++i) bench.token(reserve, 50 + i, i);
  EXPECT_EQ(two.client->tokens.size(), 2U);
  EXPECT_EQ(two.client->finished, 1);
}

TEST(Dispatcher, EndOfSequenceOnTheFirstTokenEndsTheRequest) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(8);
  bench.first_token(bench.reach_prefill(), 50, 0, TokenFinish::kStop);
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(sent.client->finish, TokenFinish::kStop);
  EXPECT_TRUE(bench.all_released());
}

// Field report 8.
TEST(Dispatcher, AStopStringOnTheFirstTokenCancelsBothSides) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(8);
  sent.client->stop_at = 50;
  bench.first_token(bench.reach_prefill(), 50);
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(bench.count(Sent::kCancel), 2U);
  EXPECT_TRUE(bench.all_released());
}

TEST(Dispatcher, DecodeTokensThatOvertakeTheFirstTokenWaitForIt) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(3);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.token(reserve, 51, 1);
  bench.token(reserve, 52, 2, TokenFinish::kLength);
  EXPECT_TRUE(sent.client->tokens.empty());
  bench.first_token(bench.take(Sent::kPrefill), 50);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50, 51, 52}));
  EXPECT_EQ(sent.client->finished, 1);
}

TEST(Dispatcher, AGapInTheTokenIndicesIsNeverPassedOn) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(8);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.first_token(bench.take(Sent::kPrefill), 50);
  bench.token(reserve, 53, 3);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50}));
  EXPECT_EQ(bench.take(Sent::kReserve).generated, 1U) << "the stream resumes where it was";
}

TEST(Dispatcher, AFaultOfTheRequestItselfIsNotRetried) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit();
  bench.ended(bench.take(Sent::kReserve), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 400);
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
}

// Field report 5.
TEST(Dispatcher, CancelFreesBothSidesInEveryPhase) {
  for (const int phase : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(phase);
    DispatchBench bench;
    if (phase > 0) bench.add_pair();
    const auto sent = bench.submit(8);
    std::size_t sides = 0;
    if (phase == 1) sides = 1;  // reserving: the decode worker alone knows of it
    if (phase >= 2) {
      const SentFrame reserve = bench.take(Sent::kReserve);
      bench.reserved(reserve);
      sides = 2;
      const SentFrame prefill = bench.take(Sent::kPrefill);
      if (phase >= 3) bench.first_token(prefill, 50);
      if (phase == 4) {
        bench.token(reserve, 51, 1);
        sides = 1;  // handed over: the prefill worker is done with it
      }
    }
    bench.dispatcher.cancel(sent.flow);
    EXPECT_EQ(bench.count(Sent::kCancel), sides);
    EXPECT_TRUE(bench.all_released());
    EXPECT_EQ(bench.dispatcher.live(), 0U);
    EXPECT_EQ(bench.dispatcher.queued(), 0U);
    EXPECT_FALSE(sent.client->error);
  }
}

TEST(Dispatcher, AClientFoundGoneWhileItsTokenIsWrittenIsCancelledSafely) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(8);
  sent.client->on_each_token = [&] { bench.dispatcher.cancel(sent.flow); };
  bench.first_token(bench.reach_prefill(), 50);
  EXPECT_EQ(bench.count(Sent::kCancel), 2U);
  EXPECT_EQ(sent.client->finished, 0);
  EXPECT_EQ(bench.dispatcher.live(), 0U);
}

TEST(Dispatcher, DeadlinesHoldInEveryPhase) {
  for (const int phase : {1, 2, 3}) {
    SCOPED_TRACE(phase);
    DispatchConfig config;
    config.reserve_timeout = std::chrono::minutes(5);
    DispatchBench bench(config);
    bench.add_pair();
    const auto sent = bench.submit();
    if (phase >= 2) bench.reserved(bench.take(Sent::kReserve));
    if (phase >= 3) bench.first_token(bench.take(Sent::kPrefill), 50);
    for (int i = 0; i < 101; ++i) {
      for (const auto& [name, id] : bench.workers) bench.heartbeat(id);
      EXPECT_FALSE(sent.client->error) << "too early";
      bench.advance(milliseconds(100));
      if (sent.client->error) break;
    }
    ASSERT_TRUE(sent.client->error);
    EXPECT_EQ(sent.client->error->status, 504);
    EXPECT_EQ(sent.client->error->code, "deadline_exceeded");
    EXPECT_TRUE(bench.all_released());
    EXPECT_EQ(bench.dispatcher.live(), 0U);
  }
}

TEST(Dispatcher, AWorkerCannotSpeakForAnother) {
  DispatchConfig config;
  config.workers.mixed_fingerprints = true;  // the stranger is of another pair
  DispatchBench bench(config);
  bench.add_pair();
  const WorkerId stranger = bench.add_worker(WorkerRole::kDecode, "d2", {9, 9});
  const auto sent = bench.submit();
  SentFrame reserve = bench.take(Sent::kReserve);
  reserve.to = stranger;
  bench.reserved(reserve);
  bench.token(reserve, 66, 0);
  bench.ended(reserve, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bench.count(Sent::kPrefill), 0U);
  EXPECT_FALSE(sent.client->error);
}

}  // namespace
}  // namespace lynx::testing
