// Workers whose transfers fail: which of the two is put aside, for how long, and how it comes back.
#include <gtest/gtest.h>

#include "tests/services/router/worker_table_rig.h"

namespace lynx {
namespace {

using testing::worker;

class PutAside : public testing::WorkerTableRig {
 protected:
  PutAside() {
    table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
    table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
    table_.add(3, worker(WorkerRole::kDecode, "d2"), clock_.now());
  }
  // Where a request goes; the load is given back.
  WorkerId decode_of_next() {
    auto placement = table_.place({20, 10, {}}, clock_.now());
    if (!placement) return 0;
    table_.release_prefill(*placement);
    table_.release_decode(*placement);
    return placement->decode;
  }
  // Failures until it is put aside.
  std::chrono::milliseconds fail(WorkerId decode, WorkerId prefill = 1) {
    for (int i = 0; i < 10; ++i)
      if (const auto aside = table_.transfer_failed(prefill, decode, clock_.now())) {
        blamed_ = aside->worker;
        return aside->pause;
      }
    return std::chrono::milliseconds(0);
  }
  WorkerId blamed_ = 0;
};

TEST_F(PutAside, ADecodeWorkerWhoseTransfersFailThreeTimesInARow) {
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now()));
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now()));
  table_.transferred(1, 2);
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now())) << "one came through in between";
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now()));
  const auto aside = table_.transfer_failed(1, 2, clock_.now());
  ASSERT_TRUE(aside);
  EXPECT_EQ(aside->worker, 2U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(decode_of_next(), 3U);
}

TEST_F(PutAside, ItIsTriedWithOneRequestAfterPausesThatDouble) {
  auto pause = fail(2);
  EXPECT_EQ(pause, std::chrono::seconds(1));
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now())) << "the rest of what was under way";
  for (const int seconds : {2, 4, 8, 16, 32, 60, 60}) {
    clock_.advance(pause);
    int trials = 0;
    for (int i = 0; i < 6; ++i) trials += decode_of_next() == 2 ? 1 : 0;
    EXPECT_EQ(trials, 1);
    pause = fail(2);
    EXPECT_EQ(pause, std::chrono::seconds(seconds));
  }
  clock_.advance(pause);
  while (decode_of_next() != 2) {
  }
  EXPECT_EQ(table_.transferred(1, 2), (std::vector<WorkerId>{2}));
  EXPECT_TRUE(table_.transferred(1, 2).empty()) << "it is told once";
  int taken = 0;
  for (int i = 0; i < 6; ++i) taken += decode_of_next() == 2 ? 1 : 0;
  EXPECT_EQ(taken, 3);
}

TEST_F(PutAside, ATrialThatEndsNeitherWayIsFollowedByAnother) {
  clock_.advance(fail(2));
  const auto trials = [&] {
    int out = 0;
    for (int i = 0; i < 6; ++i) out += decode_of_next() == 2 ? 1 : 0;
    return out;
  };
  EXPECT_EQ(trials(), 1);
  EXPECT_EQ(trials(), 0);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(trials(), 1);
}

TEST_F(PutAside, ATrialWithoutATransferIsGivenBack) {
  clock_.advance(fail(2));
  int trials = 0;
  for (int i = 0; i < 6; ++i) {
    auto placement = table_.place({20, 10, {}}, clock_.now());
    ASSERT_TRUE(placement);
    trials += placement->decode == 2 ? 1 : 0;
    table_.give_back_trials(*placement, clock_.now());
    table_.release_prefill(*placement);
    table_.release_decode(*placement);
  }
  EXPECT_EQ(trials, 3) << "taken in turn, as if it were well";
  while (decode_of_next() != 2) {
  }
  EXPECT_EQ(fail(2), std::chrono::seconds(2)) << "its pauses still double";
}

TEST_F(PutAside, AFleetOfFailingWorkersIsStillTried) {
  fail(2);
  fail(3);
  EXPECT_NE(decode_of_next(), 0U);
  EXPECT_EQ(table_.place({20, 10, std::vector<WorkerId>{2}}, clock_.now())->decode, 3U);
}

TEST_F(PutAside, APrefillWorkerThatFailsWithEveryDecodeWorkerIsBlamedWhereAnotherServes) {
  table_.add(4, worker(WorkerRole::kPrefill, "p2"), clock_.now());
  EXPECT_FALSE(table_.transfer_failed(1, 2, clock_.now()));
  EXPECT_FALSE(table_.transfer_failed(1, 3, clock_.now()));
  fail(2);
  EXPECT_EQ(blamed_, 1U);
  for (int i = 0; i < 4; ++i) {
    auto placement = table_.place({20, 10, {}}, clock_.now());
    ASSERT_TRUE(placement);
    EXPECT_EQ(placement->prefill, 4U);
  }
}

}  // namespace
}  // namespace lynx
