#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lynx {
namespace {

TEST(ThreadPool, EveryShareRunsOnce) {
  for (const unsigned threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    std::vector<int> calls(threads);
    for (int round = 0; round < 200; ++round) {
      pool.run([&](unsigned share) { ++calls[share]; });
    }
    EXPECT_EQ(calls, std::vector<int>(threads, 200));
  }
}

TEST(ThreadPool, SharesCoverEveryItemOnce) {
  ThreadPool pool(3);
  for (const std::size_t items : {0U, 1U, 2U, 3U, 7U, 1000U}) {
    for (const bool parallel : {false, true}) {
      std::vector<int> seen(items);
      pool.parallel_for(items, parallel, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) ++seen[i];
      });
      EXPECT_EQ(seen, std::vector<int>(items, 1)) << items;
    }
  }
}

// What a worker wrote is seen by the caller, and the other way round, without any lock: run() orders them.
TEST(ThreadPool, ResultsAreVisibleAfterEachRound) {
  ThreadPool pool(4);
  std::vector<std::uint64_t> value(4, 1);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t total = std::accumulate(value.begin(), value.end(), std::uint64_t{0});
    pool.run([&](unsigned worker) { value[worker] = (total + worker) % 1'000'003; });
    for (std::uint64_t worker = 0; worker < 4; ++worker)
      ASSERT_EQ(value[worker], (total + worker) % 1'000'003);
  }
}

}  // namespace
}  // namespace lynx
