// The life of sequences against workers that the test plays: what is sent, what the client sees, what is
// freed.
#include "services/router/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

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

// Cancelling a sibling frees its slot; what is failing must not take it.
TEST(Dispatcher, ASequenceThatFailsInTheQueueIsNotPlacedByItsSiblingsCancel) {
  DispatchConfig config;
  config.workers.prefill_slots = 1;
  DispatchBench bench(config);
  bench.add_pair();
  const auto placed = bench.submit(4);
  bench.reach_prefill();
  const auto queued = bench.submit(4);
  queued.client->on_error = [&] { bench.dispatcher.cancel(placed.flow); };
  while (!queued.client->error) bench.advance(milliseconds(500));
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
  EXPECT_TRUE(bench.all_released());
  EXPECT_EQ(bench.dispatcher.live(), 0U);
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

TEST(Dispatcher, AFaultOfTheRequestItselfIsNotRetried) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit();
  bench.ended(bench.take(Sent::kReserve), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 400);
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
}

TEST(Dispatcher, ABusyDecodeWorkerIsLeftAloneForAsLongAsItAsks) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  bench.submit();
  const SentFrame first = bench.take(Sent::kReserve);
  bench.busy(first, 100);
  const SentFrame second = bench.take(Sent::kReserve);
  EXPECT_NE(second.to, first.to);
  bench.busy(second, 100);
  EXPECT_EQ(bench.count(Sent::kReserve), 0U) << "both are busy: it waits in the queue";
  EXPECT_EQ(bench.dispatcher.queued(), 1U);
  bench.advance(milliseconds(50));
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
  bench.advance(milliseconds(100));
  EXPECT_EQ(bench.count(Sent::kReserve), 1U);
  EXPECT_EQ(bench.metric("lynx_retries_total"), 0) << "busy is not a failure";
}

TEST(Dispatcher, WorkersThatStayBusyEndIn429AtTheQueueTimeout) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit();
  for (int i = 0; i < 60 && !sent.client->error; ++i) {
    if (bench.count(Sent::kReserve) > 0) bench.busy(bench.take(Sent::kReserve), 40);
    bench.heartbeat(bench.workers["p"]);
    bench.heartbeat(bench.workers["d"]);
    bench.advance(milliseconds(50));
  }
  ASSERT_TRUE(sent.client->error);
  EXPECT_EQ(sent.client->error->status, 429);
  EXPECT_GE(sent.client->error->retry_after_s, 1);
}

TEST(Dispatcher, ALostDecodeWorkerCostsAPauseNotTheStream) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kDecode, "d2");
  const auto sent = bench.submit(5);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  const SentFrame prefill = bench.take(Sent::kPrefill);
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
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  const SentFrame prefill = bench.take(Sent::kPrefill);
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
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  const SentFrame prefill = bench.take(Sent::kPrefill);
  bench.first_token(prefill, 50);
  bench.handed_over(prefill);
  bench.dispatcher.worker_down(prefill.to, "killed");
  bench.token(reserve, 51, 1);
  bench.token(reserve, 52, 2, TokenFinish::kLength);
  EXPECT_EQ(sent.client->finished, 1);
  EXPECT_EQ(bench.count(Sent::kReserve), 0U);
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

// Field report 11.
TEST(Dispatcher, ABurstSpreadsBeforeAnyWorkerHasAnswered) {
  for (const auto policy : {round_robin, least_loaded}) {
    DispatchConfig config;
    config.workers.policy = policy;
    DispatchBench bench(config);
    for (const auto* name : {"p0", "p1", "p2", "p3"}) bench.add_worker(WorkerRole::kPrefill, name);
    for (const auto* name : {"d0", "d1", "d2", "d3"}) bench.add_worker(WorkerRole::kDecode, name);
    for (int i = 0; i < 28; ++i) bench.submit(4, 1);
    std::map<WorkerId, int> per_worker;
    for (const auto& frame : bench.sender.frames) ++per_worker[frame.to];
    ASSERT_EQ(per_worker.size(), 4U);
    for (const auto& [worker, requests] : per_worker) EXPECT_EQ(requests, 7) << worker;
    for (const auto& [id, worker] : bench.dispatcher.workers().all()) EXPECT_EQ(worker.requests, 7U);
  }
}

TEST(Dispatcher, TheQueueIsBoundedAndServedByFirstTokenDeadline) {
  DispatchConfig config;
  config.workers.prefill_slots = 1;
  DispatchBench bench(config);
  bench.add_pair();
  bench.submit(1, 1);
  const auto patient = bench.submit(1, 1);  // batch: waits up to 5 s for its first token
  const auto urgent = bench.submit(1, 0);   // standard: 500 ms
  for (int i = 0; i < 7; ++i) bench.submit(1, 0);
  const auto refused = bench.dispatcher.admit(0, 1);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_GE(refused->retry_after_s, 1);
  EXPECT_FALSE(bench.dispatcher.admit(1, 1)) << "each class has its own bound";
  EXPECT_EQ(bench.metric("lynx_queue_depth{slo_class=\"standard\"}"), 8);

  bench.first_token(bench.reach_prefill(), 50);
  bench.first_token(bench.reach_prefill(), 60);
  EXPECT_EQ(urgent.client->finished, 1) << "the nearer deadline goes first, though it came later";
  EXPECT_EQ(patient.client->finished, 0);
}

// Field report 10.
TEST(Dispatcher, OneThatFindsNoRoomDoesNotHoldUpTheOthers) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kPrefill, "p", {1, 1}, 60'000);
  bench.add_worker(WorkerRole::kDecode, "d", {1, 1}, 60'000);
  const auto large = bench.submit(40'000, 1);  // of a pool of 65,536 tokens
  const auto second = bench.submit(40'000, 0);
  EXPECT_EQ(bench.dispatcher.queued(), 1U);
  const auto small = bench.submit(4, 1);  // its first token may come later, but there is room for it
  EXPECT_EQ(bench.dispatcher.queued(), 1U);
  EXPECT_EQ(bench.count(Sent::kReserve), 2U);
  EXPECT_EQ(bench.take(Sent::kReserve).max_tokens, 4U);

  bench.take(Sent::kReserve);
  bench.dispatcher.cancel(large.flow);
  EXPECT_EQ(bench.take(Sent::kReserve).max_tokens, 40'000U) << "it keeps its place";
  bench.dispatcher.cancel(second.flow);
  bench.dispatcher.cancel(small.flow);
  EXPECT_TRUE(bench.all_released());
}

TEST(Dispatcher, OneThatNeverFindsRoomEndsAtItsQueueTimeoutWhileOthersAreServed) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kPrefill, "p", {1, 1}, 60'000);
  for (const auto* name : {"d", "e"}) {  // each with one that goes on for ever
    bench.add_worker(WorkerRole::kDecode, name, {1, 1}, 60'000);
    bench.submit(40'000, 1);
    bench.first_token(bench.reach_prefill(), 50);
  }
  const auto waits = bench.submit(40'000, 0);  // may queue for 2 s
  int served = 0;
  for (; !waits.client->error && served < 100; ++served) {
    const auto small = bench.submit(1, 0);
    bench.first_token(bench.reach_prefill(), 50);
    EXPECT_EQ(small.client->finished, 1);
    for (const auto& [name, id] : bench.workers) bench.heartbeat(id);
    bench.advance(milliseconds(100));
  }
  ASSERT_TRUE(waits.client->error);
  EXPECT_EQ(waits.client->error->status, 429);
  EXPECT_EQ(served, 20);
}

// A pool of 65,536 tokens in which small ones come and go, six at a time: 5,536 tokens are free whenever one
// of them has just gone.
TEST(Dispatcher, AStreamOfSmallOnesPassesALargeOneByForHalfOfItsPatienceOnly) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kPrefill, "p", {1, 1}, 60'000);
  bench.add_worker(WorkerRole::kDecode, "d", {1, 1}, 60'000);
  std::deque<Dispatcher::FlowId> small;
  for (int i = 0; i < 6; ++i) small.push_back(bench.submit(9'900, 0).flow);
  const auto large = bench.submit(40'000, 0);  // may queue for 2 s
  const auto placed = [&] {
    return std::any_of(bench.sender.frames.begin(), bench.sender.frames.end(),
                       [](const SentFrame& frame) { return frame.max_tokens == 40'000; });
  };
  int waited = 0;
  for (; !placed() && waited < 20; ++waited) {
    for (const auto& frame : std::vector(bench.sender.frames))
      if (frame.kind == Sent::kReserve) bench.reserved(frame);
    for (const auto& [name, id] : bench.workers) bench.heartbeat(id);
    bench.advance(milliseconds(100));
    bench.dispatcher.cancel(small.front());
    small.pop_front();
    small.push_back(bench.submit(9'900, 0).flow);
    if (waited < 9) {
      EXPECT_EQ(bench.dispatcher.queued(), 1U) << "the small ones are served meanwhile";
    }
  }
  EXPECT_TRUE(placed());
  EXPECT_FALSE(large.client->error);
  EXPECT_GE(waited, 10);
  EXPECT_LT(waited, 16);
  bench.dispatcher.cancel(large.flow);
  EXPECT_EQ(bench.dispatcher.queued(), 0U) << "what was held back has its turn";
}

// Nothing is kept for one that fits no pool, and nobody waits for it.
TEST(Dispatcher, OneThatFitsNoPoolEndsSoonWhileOthersAreServed) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kPrefill, "p", {1, 1}, 60'000);
  bench.add_worker(WorkerRole::kDecode, "d", {1, 1}, 60'000);
  const auto huge = bench.submit(70'000, 0);
  for (int i = 0; i < 20; ++i) {
    const auto small = bench.submit(1, 0);
    bench.first_token(bench.reach_prefill(), 50);
    EXPECT_EQ(small.client->finished, 1);
    for (const auto& [name, id] : bench.workers) bench.heartbeat(id);
    bench.advance(milliseconds(100));
  }
  ASSERT_TRUE(huge.client->error);
  EXPECT_EQ(huge.client->error->status, 503);
}

TEST(Dispatcher, RetryAfterFollowsTheDrainRate) {
  EXPECT_EQ(retry_after_seconds(100, 10), 10);
  EXPECT_EQ(retry_after_seconds(1, 1000), 1);
  EXPECT_EQ(retry_after_seconds(5, 0), 60);
  RateMeter meter;
  ManualClock clock;
  for (int i = 0; i < 400; ++i) {
    clock.advance(milliseconds(100));
    meter.record(clock.now());
  }
  EXPECT_NEAR(meter.per_second(clock.now()), 10, 0.5);
  clock.advance(std::chrono::seconds(30));
  EXPECT_LT(meter.per_second(clock.now()), 0.1);
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
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  const SentFrame prefill = bench.take(Sent::kPrefill);
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

TEST(Dispatcher, NoFittingPairIsAnErrorAtOnceThatNamesBothFingerprints) {
  DispatchConfig config;
  config.workers.mixed_fingerprints = true;
  DispatchBench bench(config);
  EXPECT_EQ(bench.dispatcher.admit(0, 1)->status, 503);
  bench.add_worker(WorkerRole::kPrefill, "p", {0xAB, 1});
  EXPECT_NE(bench.dispatcher.admit(0, 1)->message.find("no decode worker"), std::string::npos);
  bench.add_worker(WorkerRole::kDecode, "d", {0xCD, 1});
  const auto error = bench.dispatcher.admit(0, 1);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 503);
  EXPECT_NE(error->message.find("00000000000000ab"), std::string::npos) << error->message;
  EXPECT_NE(error->message.find("00000000000000cd"), std::string::npos) << error->message;
}

// Field report 7.
TEST(Dispatcher, AWorkerThatFitsNoneOfTheOtherRoleIsRefusedWithBothFingerprints) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kPrefill, "p", {0xAB, 1});
  WorkerInfo odd;
  odd.name = "d";
  odd.incarnation = 1;
  odd.role = WorkerRole::kDecode;
  odd.fingerprint = {0xAB, 0xCD};
  odd.context_tokens = odd.block_tokens = odd.total_blocks = odd.max_batch = 16;
  const Status status = bench.dispatcher.check_worker(odd);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIncompatible);
  const auto error = bench.dispatcher.admit(0, 1);  // and a request hears it at once
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 503);
  for (const std::string& text : {status.error().message, error->message}) {
    EXPECT_NE(text.find("'d' has model 00000000000000ab kv_layout 00000000000000cd"), std::string::npos)
        << text;
    EXPECT_NE(text.find("'p' has model 00000000000000ab kv_layout 0000000000000001"), std::string::npos)
        << text;
  }
  bench.add_worker(WorkerRole::kDecode, "d", {0xAB, 1});
  EXPECT_FALSE(bench.dispatcher.admit(0, 1));
  bench.dispatcher.worker_down(bench.workers["d"], "killed");
  EXPECT_EQ(bench.dispatcher.admit(0, 1)->message.find("refused"), std::string::npos) << "that is over";
  EXPECT_FALSE(bench.dispatcher.check_worker(odd).ok());
  EXPECT_NE(bench.dispatcher.admit(0, 1)->message.find("refused"), std::string::npos);
  bench.advance(std::chrono::seconds(20));
  EXPECT_EQ(bench.dispatcher.admit(0, 1)->message.find("refused"), std::string::npos) << "it went away";
}

// The decode worker of a pair that fits may be of another fingerprint than a third one: it has its partner.
TEST(Dispatcher, AWorkerIsLetInWhenItFitsOneOfTheOtherRole) {
  DispatchBench bench;
  bench.add_worker(WorkerRole::kDecode, "odd", {9, 9});  // the first to come is not asked
  bench.add_worker(WorkerRole::kDecode, "d", {1, 1});
  bench.add_worker(WorkerRole::kPrefill, "p", {1, 1});
  bench.submit(1);
  EXPECT_EQ(bench.take(Sent::kReserve).to, bench.workers["d"]);
}

TEST(Dispatcher, PrefillWorkersHearWhichLifeOfADecodeWorkerHasEnded) {
  DispatchBench bench;
  bench.add_pair();
  bench.add_worker(WorkerRole::kPrefill, "p2");
  bench.add_worker(WorkerRole::kDecode, "d2");
  bench.submit();
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.dispatcher.worker_down(reserve.to, "killed");
  EXPECT_EQ(bench.count(Sent::kGone), 2U);
  EXPECT_EQ(bench.take(Sent::kGone).gone, reserve.to == bench.workers["d"] ? "d/1" : "d2/1");
  const auto kind_at = [&](Sent kind) {
    return std::find_if(bench.sender.frames.begin(), bench.sender.frames.end(),
                        [&](const SentFrame& frame) { return frame.kind == kind; });
  };
  EXPECT_LT(kind_at(Sent::kCancel), kind_at(Sent::kGone)) << "what this router had there is cancelled first";
  bench.take(Sent::kGone);
  bench.dispatcher.worker_down(bench.workers["p2"], "killed");
  EXPECT_EQ(bench.count(Sent::kGone), 0U) << "prefill workers hold nothing for one another";

  bench.advance(std::chrono::seconds(4));  // nobody sends heartbeats
  EXPECT_EQ(bench.count(Sent::kGone), 1U);
}

TEST(Dispatcher, OnlyEqualFingerprintsArePaired) {
  DispatchConfig config;
  config.workers.mixed_fingerprints = true;
  DispatchBench bench(config);
  bench.add_worker(WorkerRole::kPrefill, "old_p", {1, 1});
  bench.add_worker(WorkerRole::kPrefill, "new_p", {2, 1});
  bench.add_worker(WorkerRole::kDecode, "new_d", {2, 1});
  bench.add_worker(WorkerRole::kDecode, "other_d", {1, 2});
  for (int i = 0; i < 6; ++i) {
    bench.submit(1);
    const SentFrame prefill = bench.reach_prefill();
    EXPECT_EQ(prefill.to, bench.workers["new_p"]);
    bench.first_token(prefill, 50);
  }
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

TEST(Dispatcher, DrainingWorkersFinishWhatTheyHaveAndGetNothingNew) {
  DispatchBench bench;
  bench.add_pair();
  const auto sent = bench.submit(2);
  const SentFrame reserve = bench.take(Sent::kReserve);
  bench.reserved(reserve);
  bench.heartbeat(bench.workers["d"], true);
  EXPECT_FALSE(bench.dispatcher.ready());
  bench.first_token(bench.take(Sent::kPrefill), 50);
  bench.token(reserve, 51, 1, TokenFinish::kLength);
  EXPECT_EQ(sent.client->finished, 1);
}

TEST(Dispatcher, AWorkerThatStartsAnewReplacesItsPredecessor) {
  DispatchBench bench;
  bench.add_pair();
  for (int restart = 0; restart < 20; ++restart) {
    const auto sent = bench.submit(1);
    const SentFrame reserve = bench.take(Sent::kReserve);
    bench.dispatcher.worker_down(bench.workers["d"], "killed");
    bench.add_worker(WorkerRole::kDecode, "d");
    bench.reserved(reserve);  // a frame of the predecessor
    EXPECT_EQ(bench.count(Sent::kPrefill), 0U);
    bench.first_token(bench.reach_prefill(), 50);
    EXPECT_EQ(sent.client->finished, 1);
  }
}

TEST(Dispatcher, OneNameCannotBeHeldByTwoLiveWorkers) {
  DispatchBench bench;
  bench.add_pair();
  WorkerInfo twin = bench.dispatcher.workers().find("d")->info;
  EXPECT_TRUE(bench.dispatcher.check_worker(twin).ok()) << "the same process on a new link";
  twin.incarnation = 2;
  EXPECT_FALSE(bench.dispatcher.check_worker(twin).ok());
  bench.advance(milliseconds(3100));
  EXPECT_TRUE(bench.dispatcher.check_worker(twin).ok()) << "the holder has gone silent";
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
