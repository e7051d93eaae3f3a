#include <gtest/gtest.h>

#include "services/prefill/push_plan.h"
#include "services/prefill/push_timeline.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;
const Clock::time_point kStart{};
Clock::time_point at(int ms) { return kStart + milliseconds(ms); }

const std::vector<BlockId> kSource{10, 11, 12, 13, 14};
const std::vector<BlockId> kTarget{50, 51, 52, 53, 54};

std::vector<BlockRun> runs(std::uint32_t from, std::uint32_t to, bool last) {
  return runs_completed_by({1, from, to, last}, 4, kSource, kTarget);
}

TEST(RunsCompletedBy, OnlyFullBlocksLeaveBeforeTheLastChunk) {
  EXPECT_EQ(runs(0, 10, false), (std::vector<BlockRun>{{10, 50, 2}}));
  EXPECT_EQ(runs(10, 15, false), (std::vector<BlockRun>{{12, 52, 1}}));
  EXPECT_EQ(runs(15, 18, true), (std::vector<BlockRun>{{13, 53, 2}}));
  EXPECT_TRUE(runs(1, 3, false).empty());
  EXPECT_EQ(runs(0, 1, true), (std::vector<BlockRun>{{10, 50, 1}}));
}

TEST(RunsCompletedBy, EachBlockLeavesOnceWhateverTheChunks) {
  for (std::uint32_t chunk = 1; chunk <= 20; ++chunk) {
    std::vector<BlockId> left;
    for (std::uint32_t from = 0; from < 18; from += chunk) {
      const std::uint32_t to = std::min(from + chunk, 18U);
      for (const BlockRun& run : runs(from, to, to == 18))
        for (std::uint32_t i = 0; i < run.blocks; ++i) left.push_back(run.source + i);
    }
    EXPECT_EQ(left, kSource) << "chunks of " << chunk;
  }
}

TEST(RunsCompletedBy, ARunBreaksWhereEitherSideBreaks) {
  const std::vector<BlockId> source{1, 2, 3, 7, 8};
  const std::vector<BlockId> target{4, 5, 9, 10, 11};
  EXPECT_EQ(runs_completed_by({1, 0, 20, true}, 4, source, target),
            (std::vector<BlockRun>{{1, 4, 2}, {3, 9, 1}, {7, 10, 2}}));
}

TEST(PushTimeline, SplitsTheTransferAtTheEndOfCompute) {
  PushTimeline timeline;
  const auto a = timeline.posted(at(10));
  const auto b = timeline.posted(at(30));
  timeline.finished(a, at(20));
  timeline.computed(at(40));
  timeline.finished(b, at(50));
  EXPECT_NEAR(timeline.transfer_seconds(), 0.040, 1e-9);
  EXPECT_NEAR(timeline.exposed_seconds(), 0.010, 1e-9);
  EXPECT_NEAR(timeline.overlap_ratio(), 20.0 / 30, 1e-9);
}

TEST(PushTimeline, ConcurrentPushesCountOnce) {
  PushTimeline timeline;
  const auto a = timeline.posted(at(0));
  const auto b = timeline.posted(at(10));
  const auto c = timeline.posted(at(20));
  timeline.finished(a, at(100));
  timeline.finished(b, at(50));  // inside a
  timeline.finished(c, at(120));
  timeline.computed(at(60));
  EXPECT_NEAR(timeline.overlap_ratio(), 0.5, 1e-9);
  EXPECT_NEAR(timeline.exposed_seconds(), 0.060, 1e-9);
}

TEST(PushTimeline, AllHiddenAndNothingPushed) {
  PushTimeline timeline;
  EXPECT_EQ(timeline.overlap_ratio(), 1);
  EXPECT_EQ(timeline.transfer_seconds(), 0);
  timeline.finished(timeline.posted(at(0)), at(5));
  timeline.computed(at(9));
  EXPECT_EQ(timeline.exposed_seconds(), 0);
  EXPECT_EQ(timeline.overlap_ratio(), 1);
}

}  // namespace
}  // namespace lynx
