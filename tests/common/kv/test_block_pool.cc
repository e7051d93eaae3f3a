#include <gtest/gtest.h>

#include <vector>

#include "common/kv/block_pool.h"

namespace lynx {
namespace {

using Blocks = std::vector<BlockId>;

Blocks take(BlockPool& pool, std::uint32_t count) {
  Blocks out;
  pool.take(count, out);
  return out;
}

void give_back(BlockPool& pool, const Blocks& blocks) {
  for (const BlockId block : blocks) pool.give_back(block);
}

TEST(BlockPool, HandsOutOneRun) {
  BlockPool pool(8);
  EXPECT_EQ(take(pool, 3), (Blocks{0, 1, 2}));
  EXPECT_EQ(pool.free_blocks(), 5U);
}

TEST(BlockPool, PrefersTheSmallestRunThatFits) {
  BlockPool pool(20);
  take(pool, 20);
  give_back(pool, {0, 1, 2, 3, 4, 5, 10, 11, 12});
  EXPECT_EQ(take(pool, 3), (Blocks{10, 11, 12}));
  EXPECT_EQ(take(pool, 6), (Blocks{0, 1, 2, 3, 4, 5}));
}

TEST(BlockPool, FallsBackToTheLargestRunsInAscendingOrder) {
  BlockPool pool(20);
  take(pool, 20);
  give_back(pool, {1, 5, 6, 9, 10, 11});
  EXPECT_EQ(take(pool, 4), (Blocks{1, 9, 10, 11}));  // three from the largest; then the best fit for one
  EXPECT_EQ(take(pool, 2), (Blocks{5, 6}));
}

TEST(BlockPool, JoinsNeighboursInAnyOrder) {
  BlockPool pool(6);
  take(pool, 6);
  give_back(pool, {4, 0, 2, 1, 5, 3});
  EXPECT_EQ(take(pool, 6), (Blocks{0, 1, 2, 3, 4, 5}));
}

TEST(BlockPool, AppendsAndSortsOnlyItsOwn) {
  BlockPool pool(4);
  Blocks out{9};
  pool.take(2, out);
  EXPECT_EQ(out, (Blocks{9, 0, 1}));
  pool.take(0, out);
  EXPECT_EQ(out.size(), 3U);
}

TEST(BlockPoolDeathTest, ADoubleFreeIsCaughtAtOnce) {
  BlockPool pool(4);
  take(pool, 4);
  give_back(pool, {1, 2});
  EXPECT_DEATH(pool.give_back(1), "freed twice");
  EXPECT_DEATH(pool.give_back(2), "freed twice");
}

TEST(BlockPool, AnEmptyPoolIsLegal) {
  BlockPool pool(0);
  EXPECT_EQ(pool.free_blocks(), 0U);
}

}  // namespace
}  // namespace lynx
