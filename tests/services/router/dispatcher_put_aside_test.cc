// One decode worker that receives no KV must not drain a fleet that is otherwise well.
#include "tests/services/router/put_aside_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

TEST_F(PutAsideDispatch, EveryRequestOfABurstIsServedByTheOthers) {
  std::vector<DispatchBench::Submitted> burst;
  for (int i = 0; i < 60; ++i) burst.push_back(bench_.submit(2, 1));  // four times the good worker's batch
  play();
  for (const auto& sent : burst) {
    EXPECT_FALSE(sent.client->error) << sent.client->error->message;
    EXPECT_EQ(sent.client->finished, 1);
  }
  EXPECT_EQ(served_, 60);
  EXPECT_LE(failed_, 16) << "its batch at the most";
  EXPECT_EQ(bench_.metric("lynx_worker_put_aside_total{worker=\"bad\"}"), 1);
  EXPECT_TRUE(bench_.all_released());
}

TEST_F(PutAsideDispatch, IsSeenInTheMetricsAndEndsWithATrialThatComesThrough) {
  for (int i = 0; i < 12; ++i) {
    bench_.submit(2, 1);
    play();
  }
  EXPECT_EQ(failed_, 3);
  pass(milliseconds(500));
  EXPECT_EQ(bench_.metric("lynx_workers{role=\"decode\",state=\"put_aside\"}"), 1);
  EXPECT_EQ(bench_.metric("lynx_workers{role=\"decode\",state=\"serving\"}"), 1);
  EXPECT_EQ(bench_.metric("lynx_workers{role=\"decode\",state=\"away\"}"), 0);
  pass(milliseconds(1000));
  for (int i = 0; i < 4; ++i) {
    bench_.submit(2, 1);
    play();
  }
  EXPECT_EQ(failed_, 4) << "one trial";
  healed_ = true;
  pass(milliseconds(2500));
  for (int i = 0; i < 4; ++i) {
    bench_.submit(2, 1);
    play();
  }
  pass(milliseconds(500));
  EXPECT_EQ(bench_.metric("lynx_workers{role=\"decode\",state=\"serving\"}"), 2);
}

TEST_F(PutAsideDispatch, ATrialThatIsTurnedAwayIsNone) {
  for (int i = 0; i < 12; ++i) {
    bench_.submit(2, 1);
    play();
  }
  ASSERT_EQ(failed_, 3);
  pass(milliseconds(1500));
  int turned_away = 0;
  for (int i = 0; i < 4; ++i) {
    bench_.submit(2, 1);
    if (bench_.sender.frames.back().to == bench_.workers["bad"]) {
      bench_.busy(bench_.take(Sent::kReserve), 10);
      ++turned_away;
    }
    play();
    bench_.advance(milliseconds(50));
  }
  EXPECT_GE(turned_away, 2);
  EXPECT_EQ(failed_, 3);
}

TEST_F(PutAsideDispatch, AFleetOfFailingWorkersAloneAnswersWithTheCause) {
  bench_.dispatcher.worker_down(bench_.workers["d"], "the test says so");
  bench_.workers.erase("d");
  bench_.sender.frames.clear();
  for (int i = 0; i < 6; ++i) {
    const auto sent = bench_.submit(2, 1);
    play();
    ASSERT_TRUE(sent.client->error);
    EXPECT_EQ(sent.client->error->code, "workers_failed");
    EXPECT_NE(sent.client->error->message.find("the test says so"), std::string::npos);
  }
}

class FullDispatch : public PutAsideDispatch {
 protected:
  // The good worker is full for as long as the test runs.
  FullDispatch() {
    bench_.dispatcher.worker_down(bench_.workers["bad"], "for a while");
    for (int i = 0; i < 16; ++i) {
      bench_.submit(900, 1);
      bench_.first_token(bench_.reach_prefill(), 50);
    }
    bench_.add_worker(WorkerRole::kDecode, "bad");
    bench_.sender.frames.clear();
  }
};

TEST_F(FullDispatch, WhatTheWorkerFailedWaitsForTheOtherButNotForEver) {
  const auto sent = bench_.submit(2, 1);
  play();
  EXPECT_EQ(failed_, 1);
  EXPECT_EQ(bench_.dispatcher.queued(), 1U);
  pass(milliseconds(500));
  play();
  EXPECT_EQ(failed_, 1) << "it waits for the other";
  healed_ = true;
  pass(milliseconds(500));
  play();
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(sent.client->finished, 1);
}

TEST_F(FullDispatch, AStreamThatTheWorkerFailedGoesBackSooner) {
  const auto sent = bench_.submit(3, 1);
  const auto [reserve, prefill] = bench_.attempt();
  bench_.first_token(prefill, 50);
  bench_.handed_over(prefill);
  bench_.token(reserve, 51, 1);
  bench_.ended(reserve, ErrorCode::kUnavailable);
  bench_.advance(milliseconds(150));
  EXPECT_EQ(bench_.count(Sent::kReserve), 0U) << "it waits for the other";
  bench_.advance(milliseconds(50));
  EXPECT_EQ(bench_.take(Sent::kReserve).to, reserve.to);
  EXPECT_FALSE(sent.client->error);
}

// On a bad checksum the decode worker's word comes before the prefill worker's.
TEST_F(PutAsideDispatch, WhatTheDecodeWorkerSaysOfATransferCountsToo) {
  for (int i = 0; i < 3; ++i) {
    const auto sent = bench_.submit(2, 1);
    SentFrame reserve = bench_.take(Sent::kReserve);
    if (reserve.to != bench_.workers["bad"]) {  // turns are taken
      bench_.busy(reserve);
      reserve = bench_.take(Sent::kReserve);
    }
    bench_.reserved(reserve);
    const SentFrame prefill = bench_.take(Sent::kPrefill);
    bench_.ended(reserve, ErrorCode::kCorrupt, true);
    bench_.ended(prefill, ErrorCode::kCorrupt, true);  // of an attempt that is over
    EXPECT_EQ(bench_.metric("lynx_worker_put_aside_total{worker=\"bad\"}"), i < 2 ? -1 : 1);
    bench_.dispatcher.cancel(sent.flow);
    bench_.advance(milliseconds(100));
    bench_.sender.frames.clear();
  }
}

// The last pushes fail after the first token is out, and the prefill worker alone says so.
TEST_F(PutAsideDispatch, AStreamWhoseTransferFailedIsNotSentToTheSameDecodeWorker) {
  const auto start = [&] {
    bench_.submit(8, 1);
    const SentFrame reserve = bench_.take(Sent::kReserve);
    bench_.reserved(reserve);
    const SentFrame prefill = bench_.take(Sent::kPrefill);
    bench_.first_token(prefill, 50);
    return std::pair(reserve, prefill);
  };
  start();
  const auto [reserve, prefill] = start();
  start();  // the other decode worker has two now, so this one is the less loaded
  bench_.ended(prefill, ErrorCode::kUnavailable, true);
  EXPECT_NE(bench_.take(Sent::kReserve).to, reserve.to);
}

// A prefill worker at the end of its grace period, a full engine, a lease of another length: all of them end
// requests with codes that failing pushes have too.
TEST_F(PutAsideDispatch, FaultsOfThePrefillWorkerAloneSayNothingOfItsPeers) {
  for (int i = 0; i < 4; ++i) {
    const auto code = i % 2 == 0 ? ErrorCode::kUnavailable : ErrorCode::kIncompatible;
    const auto sent = bench_.submit(2, 1);
    while (!sent.client->error) bench_.ended(bench_.reach_prefill(), code);
  }
  for (const char* name : {"p", "d", "bad"})
    EXPECT_EQ(bench_.metric("lynx_worker_put_aside_total{worker=\"" + std::string(name) + "\"}"), -1) << name;
}

}  // namespace
}  // namespace lynx::testing
