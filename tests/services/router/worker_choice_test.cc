// Policies, the worker table and the queue: pure, so each test is a small table.
#include <gtest/gtest.h>

#include "services/router/admission_queue.h"
#include "services/router/policy.h"
#include "services/router/worker_table.h"

namespace lynx {
namespace {

TEST(RoutingPolicy, RoundRobinTakesTurnsThoughWorkersComeAndGo) {
  const std::vector<WorkerLoad> all{{1, 0, 1, 0, 1}, {2, 0, 1, 0, 1}, {5, 0, 1, 0, 1}};
  EXPECT_EQ(round_robin(all, 0), 0U);
  EXPECT_EQ(round_robin(all, 1), 1U);
  EXPECT_EQ(round_robin(all, 2), 2U);
  EXPECT_EQ(round_robin(all, 5), 0U);
  const std::vector<WorkerLoad> without_two{all[0], all[2]};
  EXPECT_EQ(round_robin(without_two, 1), 1U);
}

TEST(RoutingPolicy, LeastLoadedLooksAtTheScarcerResource) {
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 3, 16, 10, 100}, {2, 2, 16, 10, 100}}, 0), 1U);
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 1, 16, 90, 100}, {2, 8, 16, 10, 100}}, 0), 1U);
  EXPECT_EQ(least_loaded(std::vector<WorkerLoad>{{1, 8, 64, 10, 100}, {2, 4, 16, 10, 100}}, 0), 0U)
      << "a larger worker takes more";
  const std::vector<WorkerLoad> equal{{1, 1, 8, 1, 9}, {2, 1, 8, 1, 9}, {3, 1, 8, 1, 9}};
  EXPECT_EQ(least_loaded(equal, 1), 1U);
  EXPECT_EQ(least_loaded(equal, 3), 0U);
}

TEST(RoutingPolicy, NamesAreKnown) {
  EXPECT_NE(find_routing_policy("round_robin"), nullptr);
  EXPECT_NE(find_routing_policy("least_loaded"), nullptr);
  EXPECT_EQ(find_routing_policy("random"), nullptr);
}

WorkerInfo worker(WorkerRole role, const std::string& name) {
  WorkerInfo info;
  info.name = name;
  info.incarnation = 1;
  info.role = role;
  info.context_tokens = 2048;
  info.block_tokens = 16;
  info.total_blocks = 64;
  info.max_batch = 4;
  return info;
}

class WorkerTableTest : public ::testing::Test {
 protected:
  WorkerTableTest() : table_(config()) {}
  static WorkerTableConfig config() {
    WorkerTableConfig out;
    out.decode_overcommit = 1.5;
    return out;
  }
  WorkerTable table_;
  ManualClock clock_;
};

TEST_F(WorkerTableTest, ContextIsWhatAPairCanHold) {
  EXPECT_EQ(table_.context(), 0U);
  table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
  EXPECT_EQ(table_.context(), 0U);
  table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
  EXPECT_EQ(table_.context(), 1024U) << "64 blocks of 16 hold less than the model's context";
  EXPECT_FALSE(table_.place({1025, 10, {}}, clock_.now()));
  EXPECT_TRUE(table_.place({1024, 10, {}}, clock_.now()));
}

TEST_F(WorkerTableTest, SlotsAreTakenAtSelectionAndGivenBackOnce) {
  table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
  table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
  std::vector<Placement> taken;
  while (auto placement = table_.place({20, 10, {}}, clock_.now())) taken.push_back(*placement);
  EXPECT_EQ(taken.size(), 6U) << "a batch of 4 and an overcommit of 1.5";
  EXPECT_EQ(table_.find(2)->tokens, 6 * 32U) << "20 tokens hold two blocks of 16";
  table_.release_decode(taken[0]);
  table_.release_decode(taken[0]);
  EXPECT_EQ(table_.find(2)->requests, 5U);
  table_.release_prefill(taken[0]);
  EXPECT_EQ(table_.find(1)->tokens, 50U);
}

TEST_F(WorkerTableTest, ADecodePoolIsNotPromisedTwice) {
  table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
  table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
  auto first = table_.place({1000, 10, {}}, clock_.now());
  ASSERT_TRUE(first);
  EXPECT_FALSE(table_.place({20, 10, {}}, clock_.now())) << "1,008 of 1,024 tokens are taken";
  EXPECT_TRUE(table_.place({16, 10, {}}, clock_.now()));
  table_.release_decode(*first);
  EXPECT_TRUE(table_.place({1000, 10, {}}, clock_.now()));
}

TEST_F(WorkerTableTest, AvoidedWorkersAreTakenOnlyWhenThereIsNoOther) {
  table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
  table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
  table_.add(3, worker(WorkerRole::kDecode, "d2"), clock_.now());
  const std::vector<WorkerId> avoid{2};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(table_.place({20, 10, avoid}, clock_.now())->decode, 3U);
  EXPECT_FALSE(table_.place({20, 10, avoid}, clock_.now())) << "it waits for the one that has not failed it";
  WorkerHealth draining;
  draining.draining = true;
  table_.heartbeat(3, draining, clock_.now());
  EXPECT_EQ(table_.place({20, 10, avoid}, clock_.now())->decode, 2U);
}

TEST_F(WorkerTableTest, RoomIsKeptOnAWorkerThatHasNotFailedTheRequest) {
  table_.add(1, worker(WorkerRole::kPrefill, "p"), clock_.now());
  table_.add(2, worker(WorkerRole::kDecode, "d"), clock_.now());
  table_.add(3, worker(WorkerRole::kDecode, "d2"), clock_.now());
  auto taken = table_.place({1000, 10, std::vector<WorkerId>{2}}, clock_.now());
  ASSERT_TRUE(taken);
  EXPECT_EQ(table_.first_to_fit({1000, 10, {}}, clock_.now()), 2U);
  EXPECT_EQ(table_.first_to_fit({1000, 10, std::vector<WorkerId>{2}}, clock_.now()), 3U);
}

class PutAside : public WorkerTableTest {
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

TEST_F(WorkerTableTest, RegistrationsThatCannotWorkAreRefused) {
  const auto refused = [&](auto change) {
    WorkerInfo info = worker(WorkerRole::kDecode, "d");
    change(info);
    return !table_.check(info, clock_.now()).ok();
  };
  EXPECT_FALSE(refused([](WorkerInfo&) {}));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.name.clear(); }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.name = "d\nd"; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.name.assign(5000, 'd'); }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.incarnation = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.total_blocks = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.context_tokens = 0; }));
  EXPECT_TRUE(refused([](WorkerInfo& info) { info.max_batch = 0; }));
}

TEST(AdmissionQueue, KeepsOrderAndDepths) {
  AdmissionQueue queue({2, 1});
  ManualClock clock;
  const auto at = [&](int ms) { return clock.now() + std::chrono::milliseconds(ms); };
  queue.push(10, 0, at(30));
  queue.push(11, 1, at(10));
  queue.push(12, 0, at(10));
  EXPECT_EQ(queue.flows(), (std::vector<std::uint64_t>{11, 12, 10}));
  EXPECT_FALSE(queue.has_room(0, 1));
  queue.erase(12);
  queue.erase(12);
  EXPECT_TRUE(queue.has_room(0, 1));
  EXPECT_FALSE(queue.has_room(0, 2));
  EXPECT_EQ(queue.first_that([](std::uint64_t) { return true; }), 11U);
  EXPECT_EQ(queue.first_that([](std::uint64_t flow) { return flow != 11; }), 10U);
  EXPECT_FALSE(queue.first_that([](std::uint64_t) { return false; }));
  EXPECT_EQ(queue.depth(1), 1U);
}

}  // namespace
}  // namespace lynx
