// The emulator itself: what it lets happen, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/cluster.cuh"
#include "tests/kernels/cuda_on_cpu/device_code.h"

namespace lynx::on_cpu {
namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kRounds = 200;

std::string fault_of(const Launch& launch, const std::function<void()>& kernel) {
  try {
    run(launch, kernel);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "none";
}

template <typename T>
T& shared() {
  return *reinterpret_cast<T*>(shared_memory());
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(6 * kThreads);
  run({.blocks = 6, .threads = kThreads, .shared_bytes = 0, .cluster = 2},
      [&] { ++runs[blockIdx.x * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(std::ranges::count(runs, 1), std::ssize(runs));
}

TEST(Emulator, CollectivesGiveWhatAllLanesBring) {
  run({}, [] {
    const unsigned lane = threadIdx.x;
    EXPECT_EQ(__reduce_add_sync(~0U, lane), 496U);
    EXPECT_EQ(__reduce_min_sync(~0U, lane + 3), 3U);
    EXPECT_EQ(__reduce_max_sync(~0U, lane + 3), 34U);
    EXPECT_EQ(__ballot_sync(~0U, lane % 2 == 1), 0xAAAAAAAAU);
    EXPECT_EQ(__shfl_sync(~0U, 1.5F * static_cast<float>(lane), 4), 6.0F);
    EXPECT_EQ(__shfl_xor_sync(~0U, lane, 1), lane ^ 1U);
    EXPECT_EQ(__shfl_up_sync(~0U, std::uint64_t{lane} << 40, 2),
              std::uint64_t{lane < 2 ? lane : lane - 2} << 40);
    EXPECT_EQ(__any_sync(~0U, lane == 7), 1);
    EXPECT_EQ(__any_sync(~0U, false), 0);
  });
}

TEST(Emulator, FindsSetBits) {
  EXPECT_EQ(__fns(0b10110, 0, 1), 1U);
  EXPECT_EQ(__fns(0b10110, 0, 3), 4U);
  EXPECT_EQ(__fns(0b10110, 0, 4), ~0U);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
}

// Which warp is last to write differs from schedule to schedule; with a barrier, none is missed.
TEST(Emulator, OrdersOnlyWhatABarrierOrders) {
  std::set<unsigned> without, with;
  for (unsigned round = 0; round < kRounds; ++round) {
    unsigned first = 0, count = 0, seen = 0;
    run({.threads = kThreads, .shared_bytes = 4}, [&] {
      if (threadIdx.x == 0) first = count;
      atomicAdd(&count, 1U);
      __syncthreads();
      if (threadIdx.x == 0) seen = count;
    });
    without.insert(first);
    with.insert(seen);
  }
  EXPECT_GT(without.size(), 10U);
  EXPECT_EQ(with, std::set<unsigned>{kThreads});
}

// Of a barrier's threads, half only say that they have come: they do not wait for the others, who miss none.
TEST(Emulator, SomeThreadsOfABarrierGoOn) {
  std::set<unsigned> seen, ahead;
  for (unsigned round = 0; round < kRounds; ++round) {
    unsigned come = 0, left = 0;
    run({.threads = kThreads}, [&] {
      if (threadIdx.x < kThreads / 2) {
        atomicAdd(&come, 1U);
        cuda::arrive_at(3, kThreads);
        atomicAdd(&left, 1U);
      } else {
        if (threadIdx.x == kThreads / 2) ahead.insert(left);
        cuda::wait_at(3, kThreads);
        seen.insert(come);
      }
    });
  }
  EXPECT_EQ(seen, std::set<unsigned>{kThreads / 2});
  EXPECT_GT(ahead.size(), 1U);
}

TEST(Emulator, AtomicsLoseNothing) {
  run({.threads = kThreads, .shared_bytes = 8}, [] {
    auto& counters = shared<std::uint32_t[2]>();
    if (threadIdx.x < 2) counters[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&counters[0], 1U);
    atomicOr(&counters[1], 1U << (threadIdx.x % 32));
    __syncthreads();
    EXPECT_EQ(counters[0], kThreads);
    EXPECT_EQ(counters[1], ~0U);
  });
}

// This file, too, is compiled with interruptions.
TEST(Emulator, APlainSumLosesWhatAnAtomicWouldNot) {
  std::set<std::uint32_t> sums;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::uint32_t sum = 0;  // not in shared memory, where it would be a race
    run({.threads = kThreads}, [&] { ++sum; });
    sums.insert(sum);
  }
  EXPECT_EQ(*sums.rbegin(), kThreads) << "some schedules do not interrupt";
  EXPECT_LT(*sums.begin(), kThreads);
}

TEST(Emulator, BlocksOfAClusterReadOneAnother) {
  run({.blocks = 4, .threads = kThreads, .shared_bytes = 4, .cluster = 4}, [] {
    if (threadIdx.x == 0) shared<unsigned>() = 10 * cluster_rank();
    cluster_arrive();
    cluster_wait();
    for (unsigned b = 0; b < cluster_blocks(); ++b)
      EXPECT_EQ(*static_cast<unsigned*>(in_block(shared_memory(), b)), 10 * b);
    cluster_arrive();
    cluster_wait();
  });
}

struct Mailbox {
  cuda::Inbox inbox;
  std::uint32_t words[4];
};

TEST(Emulator, MailIsThereOnceItHasBeenAwaited) {
  unsigned missed = 0;
  run({.blocks = 4, .threads = kThreads, .shared_bytes = sizeof(Mailbox), .cluster = 4}, [&] {
    Mailbox& box = shared<Mailbox>();
    if (threadIdx.x == 0) box.inbox.expect(4 * sizeof(std::uint32_t));
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x == 0)
      for (unsigned b = 0; b < 4; ++b) box.inbox.send(&box.words[cluster_rank()], b, 7 + cluster_rank());
    box.inbox.await();
    for (unsigned b = 0; b < 4; ++b) missed += box.words[b] != 7 + b ? 1 : 0;
  });
  EXPECT_EQ(missed, 0U);
}

TEST(Emulator, MailComesLate) {
  unsigned late = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::uint32_t waits = 1;
    run({.threads = kThreads}, [&] {
      if (threadIdx.x == 0) send(0, [&] { waits = 0; });
      if (threadIdx.x == 0) late += waits;
      wait_while(waits, 1);
      EXPECT_EQ(waits, 0U);
    });
  }
  EXPECT_GT(late, 0U);
}

TEST(Emulator, APeerGetsWordsAtTheirOwnPlace) {
  struct Box {
    alignas(16) uint4 quad;
    std::uint32_t word;
    cuda::Inbox inbox;
  };
  run({.blocks = 2, .threads = kThreads, .shared_bytes = sizeof(Box), .cluster = 2}, [&] {
    Box& box = shared<Box>();
    if (threadIdx.x == 0) box.inbox.expect(sizeof(uint4) + sizeof(std::uint32_t));
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x == 0) {
      const cuda::Peer peer(&box, 1 - cluster_rank());
      peer.send(box.inbox, &box.quad, uint4{1, 2, 3, cluster_rank()});
      peer.send(box.inbox, &box.word, 5 + cluster_rank());
    }
    box.inbox.await();
    EXPECT_EQ(box.quad.w, 1 - cluster_rank());
    EXPECT_EQ(box.quad.x, 1U);
    EXPECT_EQ(box.word, 6 - cluster_rank());
  });
}

TEST(Emulator, SaysWhatAKernelMustNotDo) {
  const Launch block{.threads = kThreads, .shared_bytes = 16};
  const Launch pair{.blocks = 2, .threads = kThreads, .shared_bytes = sizeof(Mailbox), .cluster = 2};
  const auto expect_fault = [](const std::string& fault, const char* part) {
    EXPECT_NE(fault.find(part), std::string::npos) << fault;
  };
  expect_fault(fault_of(block,
                        [] {
                          if (threadIdx.x != 5) __syncthreads();
                        }),
               "63 threads wait, 63 of them at");
  expect_fault(fault_of(block,
                        [] {
                          if (threadIdx.x != 5) __syncwarp();
                        }),
               "31 for lanes of their warp");
  expect_fault(fault_of(block, [] { threadIdx.x == 5 ? __syncwarp() : void(__ballot_sync(~0U, true)); }),
               "different collectives");
  expect_fault(fault_of(block, [] { shared_memory()[16] = std::byte{1}; }), "past the end");
  expect_fault(fault_of(pair, [] { in_block(shared_memory(), 1); }), "before the cluster has met");
  expect_fault(fault_of(pair, [] { cluster_arrive(), cluster_arrive(); }), "twice");
  expect_fault(fault_of(pair, [] { cluster_wait(); }), "without having arrived");
  expect_fault(fault_of(pair, [] { cluster_arrive(); }), "yet to wait");
  expect_fault(fault_of(pair, [] { shared<Mailbox>().inbox.await(); }), "nobody has told");
  expect_fault(fault_of({.threads = 33}, [] {}), "whole warps");
}

TEST(Emulator, MailMustNotComeAfterTheEnd) {
  std::set<std::string> faults;
  for (unsigned round = 0; round < kRounds; ++round)
    faults.insert(fault_of({.blocks = 2, .threads = kThreads, .shared_bytes = 4, .cluster = 2}, [] {
      cluster_arrive(), cluster_wait();
      if (threadIdx.x == 0) send(1 - cluster_rank(), [] {});
    }));
  EXPECT_EQ(faults, (std::set<std::string>{"none", "mail for a block that has ended"}));
}

TEST(Emulator, PassesOnWhatAKernelThrowsAndCanGoOn) {
  EXPECT_THROW(run({.threads = kThreads},
                   [] {
                     if (threadIdx.x == 40) throw std::runtime_error("of a thread");
                     __syncthreads();
                   }),
               std::runtime_error);
  EXPECT_EQ(fault_of({.threads = kThreads}, [] { __syncthreads(); }), "none");
}

}  // namespace
}  // namespace lynx::on_cpu
