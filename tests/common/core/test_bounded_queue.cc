#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

#include "common/core/bounded_queue.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

TEST(BoundedQueue, FullMeansRefusedAndTheItemUntouched) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(queue.try_push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(queue.size(), 2u);
  const auto all = queue.drain();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(*all[0] * 10 + *all[1], 12) << "in order";
  EXPECT_TRUE(queue.try_push(std::move(third)));
}

TEST(BoundedQueue, DrainNeverWaitsAndWaitDrainOnlyForItsTimeout) {
  BoundedQueue<int> queue(1);
  EXPECT_TRUE(queue.drain().empty());
  EXPECT_TRUE(queue.wait_drain(milliseconds(1)).empty());
}

TEST(BoundedQueue, CloseWakesWaitersRefusesAndStillDrains) {
  BoundedQueue<int> queue(4);
  std::atomic<int> got = -1;
  std::thread waiter([&] { got = static_cast<int>(queue.wait_drain(std::chrono::hours(1)).size()); });
  queue.close();
  waiter.join();
  EXPECT_EQ(got, 0);
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.try_push(1));

  BoundedQueue<int> filled(4);
  EXPECT_TRUE(filled.try_push(7));
  filled.close();
  EXPECT_EQ(filled.wait_drain(std::chrono::hours(1)), std::vector<int>{7});
}

TEST(BoundedQueue, ManyProducersAndConsumersLoseNothing) {
  constexpr int kProducers = 4;
  constexpr int kEach = 5000;
  BoundedQueue<int> queue(64);
  std::atomic<long> sum = 0;
  std::atomic<int> taken = 0;
  std::vector<std::thread> threads;
  for (int c = 0; c < 2; ++c) {
    threads.emplace_back([&] {
      while (taken < kProducers * kEach) {
        const auto items = queue.wait_drain(milliseconds(1));
        sum += std::accumulate(items.begin(), items.end(), 0L);
        taken += static_cast<int>(items.size());
      }
    });
  }
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&] {
      for (int i = 1; i <= kEach; ++i) {
        while (!queue.try_push(int(i))) std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken, kProducers * kEach);
  EXPECT_EQ(sum, kProducers * (kEach * (kEach + 1L) / 2));
}

}  // namespace
}  // namespace lynx
