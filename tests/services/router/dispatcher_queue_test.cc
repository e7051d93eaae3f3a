// Who is placed next, where, and how long the others wait.
#include "services/router/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace lynx::testing
