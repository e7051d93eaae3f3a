// Which workers are let in and paired, and what they are told of one another.
#include "services/router/dispatcher.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace lynx::testing
