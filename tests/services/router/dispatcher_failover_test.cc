// Workers that fail, fall silent or die under a sequence: it is tried again elsewhere, or goes on there.
#include "services/router/dispatcher.h"

#include <gtest/gtest.h>

#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

TEST(Dispatcher, RetriesOnAnotherPrefillWorkerWhenOneDiesBeforeTheFirstToken) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kPrefill, "p2");
  const auto sent = bench.submit();
  const SentFrame first = bench.reach_prefill();
  bench.dispatcher.worker_down(first.to, "killed");
  EXPECT_EQ(bench.take(Sent::kCancel).to, bench.workers["d"]) << "the decode side frees the lease";
  const SentFrame second = bench.reach_prefill();
  EXPECT_NE(second.to, first.to);
  EXPECT_NE(second.request, first.request) << "a late frame of the first attempt must find nobody";
  bench.first_token(first, 99);  // late, and from a worker that is gone
  EXPECT_TRUE(sent.client->tokens.empty());
  bench.first_token(second, 50);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50}));
  EXPECT_EQ(bench.metric("lynx_retries_total"), 1);
}

// Field report 2.
TEST(Dispatcher, AFailedTransferTriesAnotherDecodeWorkerThoughThePrefillWorkerReportsIt) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  bench.submit();
  const SentFrame first = bench.take(Sent::kReserve);
  bench.reserved(first);
  bench.ended(bench.take(Sent::kPrefill), ErrorCode::kUnavailable);
  EXPECT_EQ(bench.take(Sent::kCancel).to, first.to) << "the receiver is told; it waits for nothing more";
  EXPECT_NE(bench.take(Sent::kReserve).to, first.to);
}

TEST(Dispatcher, GivesUpAfterMaxRetries) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit();
  for (int i = 0; i < 4; ++i) bench.ended(bench.reach_prefill(), ErrorCode::kInternal);
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 503);
  EXPECT_TRUE(bench.all_released());
}

TEST(Dispatcher, ALostDecodeWorkerCostsAPauseNotTheStream) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  const auto sent = bench.submit(5);
  const auto [reserve, prefill] = bench.attempt();
  bench.first_token(prefill, 50);
  bench.handed_over(prefill);
  bench.token(reserve, 51, 1);
  bench.dispatcher.worker_down(reserve.to, "killed");

  const SentFrame again = bench.take(Sent::kReserve);
  EXPECT_NE(again.to, reserve.to);
  EXPECT_EQ(again.tokens, (std::vector<TokenId>{7, 8, 9, 50, 51}));
  EXPECT_EQ(again.generated, 2U);
  EXPECT_EQ(again.max_tokens, 5U) << "max_tokens is of the whole request";
  bench.reserved(again);
  const SentFrame prefill_again = bench.take(Sent::kPrefill);
  EXPECT_EQ(prefill_again.generated, 2U);
  bench.token(reserve, 77, 2);  // from the dead
  bench.first_token(prefill_again, 52, 2);
  bench.token(again, 53, 3);
  bench.token(again, 54, 4, TokenFinish::kLength);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50, 51, 52, 53, 54}));
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(bench.metric("lynx_resumes_total"), 1);
  EXPECT_TRUE(bench.all_released());
}

TEST(Dispatcher, APreemptedStreamResumes) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(3);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.first_token(bench.take(Sent::kPrefill), 50);
  bench.token(reserve, 51, 1);
  bench.ended(reserve, ErrorCode::kUnavailable);
  bench.first_token(bench.reach_prefill(), 52, 2, TokenFinish::kLength);
  EXPECT_EQ(sent.client->tokens, (std::vector<TokenId>{50, 51, 52}));
  EXPECT_EQ(sent.client->finished, 1);
}

TEST(Dispatcher, APrefillWorkerLostInTheTransferMakesTheStreamResume) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(4);
  const auto [reserve, prefill] = bench.attempt();
  bench.first_token(prefill, 50);
  bench.add_worker(WorkerRole::kPrefill, "p2");
  bench.dispatcher.worker_down(prefill.to, "killed");
  EXPECT_EQ(bench.take(Sent::kCancel).to, reserve.to);
  EXPECT_EQ(bench.take(Sent::kReserve).generated, 1U);
  EXPECT_FALSE(sent.client->error);
}

TEST(Dispatcher, APrefillWorkerLostAfterTheHandOverDoesNotMatter) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(3);
  const auto [reserve, prefill] = bench.attempt();
  bench.first_token(prefill, 50);
  bench.handed_over(prefill);
  bench.dispatcher.worker_down(prefill.to, "killed");
  bench.token(reserve, 51, 1);
  bench.token(reserve, 52, 2, TokenFinish::kLength);
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
}

TEST(Dispatcher, ADecodeWorkerThatDoesNotAnswerReserveIsLeftForAnother) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  bench.submit();
  const SentFrame first = bench.take(Sent::kReserve);
  bench.advance(milliseconds(2100));
  EXPECT_EQ(bench.take(Sent::kCancel).to, first.to);
  EXPECT_NE(bench.take(Sent::kReserve).to, first.to);
}

TEST(Dispatcher, AWorkerWithoutHeartbeatsLosesItsSequencesAndComesBack) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(8, 1);
  const auto [reserve, prefill] = bench.attempt();
  bench.first_token(prefill, 50);
  bench.handed_over(prefill);
  for (int i = 0; i < 32; ++i) {  // the decode worker is stopped; its link stays up
    bench.heartbeat(bench.workers["p"]);
    bench.advance(milliseconds(100));
  }
  EXPECT_FALSE(bench.dispatcher.ready());
  EXPECT_EQ(bench.take(Sent::kCancel).to, reserve.to) << "it reads this when it wakes up";
  EXPECT_FALSE(sent.client->error) << "it waits for a worker that fits";
  bench.heartbeat(bench.workers["d"]);
  EXPECT_TRUE(bench.dispatcher.ready());
  EXPECT_EQ(bench.take(Sent::kReserve).generated, 1U);
}

TEST(Dispatcher, QueuedSequencesFailWithinASecondWhenTheLastPairGoes) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit();
  bench.dispatcher.worker_down(bench.workers["d"], "killed");
  EXPECT_FALSE(sent.client->error) << "a restarting worker gets a moment";
  bench.advance(milliseconds(900));
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 503);
}

TEST(Dispatcher, AStreamThatStartedWaitsLongerForAWorkerButNotForEver) {
  DispatchConfig config;
  config.resume_wait = milliseconds(3000);
  DispatchBench bench(config);
  bench.add_pair();
  const auto sent = bench.submit(8, 1);
  bench.first_token(bench.reach_prefill(), 50);
  bench.dispatcher.worker_down(bench.workers["d"], "killed");
  bench.advance(milliseconds(2000));
  EXPECT_FALSE(sent.client->error);
  bench.advance(milliseconds(2000));
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 503);
}

TEST(Dispatcher, ALinkThatIsDownIsPassedOver) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  bench.sender.down.push_back(bench.workers["d"]);
  for (int i = 0; i < 3; ++i) bench.submit();
  EXPECT_EQ(bench.count(Sent::kReserve), 3U);
  for (const auto& frame : bench.sender.frames) EXPECT_EQ(frame.to, bench.workers["d2"]);
}

}  // namespace
}  // namespace lynx::testing
