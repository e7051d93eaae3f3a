#include <gtest/gtest.h>

#include "tests/services/router/worker_table_rig.h"

namespace lynx {
namespace {

using testing::worker;
using WorkerTableTest = testing::WorkerTableRig;

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

}  // namespace
}  // namespace lynx
