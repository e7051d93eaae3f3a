// Races for shared memory: found under any schedule, and none where there is none. `right`: what each kernel
// would have to do.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "kernels/cuda/cluster.cuh"
#include "tests/kernels/cuda_on_cpu/device_code.h"

namespace lynx::on_cpu {
namespace {

constexpr unsigned kThreads = 96;
constexpr std::uint32_t kSeeds = 50;

struct Mailbox {
  cuda::Inbox inbox, other;
  std::uint32_t words[4];
};

template <typename T = std::uint32_t[4]>
T& shared() {
  return *reinterpret_cast<T*>(shared_memory());
}
unsigned warp() { return threadIdx.x / 32; }
bool first_lane() { return threadIdx.x % 32 == 0; }

std::string fault_of(const Launch& launch, const std::function<void(bool)>& kernel, bool right) {
  try {
    run(launch, [&] { kernel(right); });
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "none";
}

// parts: of what is said about the race.
void expect_race(const Launch& launch, const std::function<void(bool right)>& kernel,
                 std::initializer_list<const char*> parts) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    seed_schedules(seed);
    ASSERT_EQ(fault_of(launch, kernel, true), "none") << "seed " << seed;
    seed_schedules(seed);
    const std::string fault = fault_of(launch, kernel, false);
    for (const char* part : parts)
      ASSERT_NE(fault.find(part), std::string::npos) << fault << ", seed " << seed;
  }
}

const Launch block{.threads = kThreads, .shared_bytes = 64};
const Launch pair{.blocks = 2, .threads = kThreads, .shared_bytes = sizeof(Mailbox), .cluster = 2};

TEST(Races, AReadThatNoBarrierPutsAfterTheWrite) {
  expect_race(block,
              [](bool right) {
                if (threadIdx.x == 0) shared()[1] = 7;
                if (right) __syncthreads();
                if (threadIdx.x == 32) shared()[2] = shared()[1];
              },
              {"byte 4 of block 0", "warp 0 of block 0 writes", "warp 1 of block 0 reads"});
}

TEST(Races, AWriteThatNoBarrierPutsAfterTheRead) {
  expect_race(block,
              [](bool right) {
                if (threadIdx.x == 0) shared()[1] = 7;
                __syncthreads();
                if (warp() == 1) shared()[2 + (first_lane() ? 0 : 1)] = shared()[1];
                if (right) __syncthreads();
                if (threadIdx.x == 64) shared()[1] = 8;
              },
              {"warp 1 of block 0 reads", "warp 2 of block 0 writes"});
}

TEST(Races, TwoWritesOfTheSameValue) {
  expect_race(block,
              [](bool right) {
                if (first_lane() && (warp() == 0 || !right)) shared()[0] = 1;
              },
              {"writes", ", and neither"});
}

// Half of the barrier's threads wait for those who say that they have written, the others for nobody.
TEST(Races, WhoOnlyArrivesDoesNotWait) {
  expect_race(block,
              [](bool right) {
                shared<std::uint32_t[16]>()[first_lane() ? warp() : 3 + warp()] = 1;
                if (warp() == 0 || (warp() == 1 && !right))
                  cuda::arrive_at(2, kThreads);
                else
                  cuda::wait_at(2, kThreads);
                if (threadIdx.x == 32) shared()[1] += shared()[0];
              },
              {"warp 0 of block 0 writes", "warp 1 of block 0 reads"});
}

TEST(Races, WhatOneDoesAfterItHasArrivedIsNotWaitedFor) {
  expect_race(block,
              [](bool right) {
                if (right && threadIdx.x == 0) shared()[0] = 1;
                if (warp() == 0)
                  cuda::arrive_at(2, kThreads);
                else
                  cuda::wait_at(2, kThreads);
                if (!right && threadIdx.x == 0) shared()[0] = 1;
                if (threadIdx.x == 32) shared()[1] = shared()[0];
              },
              {"warp 0 of block 0 writes", "warp 1 of block 0 reads"});
}

TEST(Races, AtomicsRaceWithPlainAccessesAlone) {
  expect_race(block,
              [](bool right) {
                if (threadIdx.x == 0) shared()[0] = 0;
                __syncthreads();
                if (warp() != 2) atomicAdd(&shared()[0], 1U);
                if (right) __syncthreads();
                if (threadIdx.x == 64) shared()[1] = shared()[0];
              },
              {"has an atomic", "warp 2 of block 0 reads"});
}

TEST(Races, VolatileAccessesAreAsAtomics) {
  expect_race(block,
              [](bool right) {
                if (threadIdx.x == 0) shared()[0] = 0;
                __syncthreads();
                if (warp() == 0) atomicOr(&shared()[0], 1U);
                if (threadIdx.x != 64) return;
                if (right)
                  shared()[1] = static_cast<volatile std::uint32_t&>(shared()[0]);
                else
                  shared()[1] = shared()[0];
              },
              {"has an atomic", "warp 2 of block 0 reads"});
}

TEST(Races, BytesOfAWordAreNotTheWord) {
  expect_race(block,
              [](bool right) {
                if (first_lane()) shared<std::byte[64]>()[right ? warp() : warp() / 2] = std::byte{1};
              },
              {"byte 0 of block 0", "warp 0 of block 0 writes", "warp 1 of block 0 writes"});
}

TEST(Races, OtherBlocksOfTheCluster) {
  expect_race(pair,
              [](bool right) {
                cluster_arrive(), cluster_wait();
                const unsigned other = 1 - cluster_rank();
                if (threadIdx.x == 0) static_cast<std::uint32_t*>(in_block(shared_memory(), other))[3] = 5;
                right ? cluster_arrive() : __syncthreads();
                right ? cluster_wait() : __syncthreads();
                if (threadIdx.x == 32) shared()[0] = shared()[3];
                cluster_arrive(), cluster_wait();
              },
              {"byte 12 of block", "warp 1 of block", "warp 0 of block"});
}

void open_mailbox(Mailbox& box) {
  if (threadIdx.x == 0) box.inbox.expect(sizeof(std::uint32_t)), box.other.expect(sizeof(std::uint32_t));
  cluster_arrive(), cluster_wait();
}

// After the cluster has met again, and after other mail: it is there only once it has been awaited itself.
TEST(Races, MailThatHasNotBeenAwaited) {
  expect_race(pair,
              [](bool right) {
                Mailbox& box = shared<Mailbox>();
                open_mailbox(box);
                if (threadIdx.x == 0) box.inbox.send(&box.words[0], 1 - cluster_rank(), 7U);
                if (threadIdx.x == 0) box.other.send(&box.words[1], 1 - cluster_rank(), 8U);
                cluster_arrive(), cluster_wait();
                (right ? box.inbox : box.other).await();
                if (threadIdx.x == 32) box.words[2] = box.words[0];
                __syncwarp();  // so that no lane has yet awaited the rest
                box.inbox.await(), box.other.await();
              },
              {"sends mail", "warp 1 of block", "reads"});
}

TEST(Races, WhatCameBeforeMailIsKnownToWhoAwaitsIt) {
  expect_race(pair,
              [](bool right) {
                Mailbox& box = shared<Mailbox>();
                open_mailbox(box);
                const unsigned other = 1 - cluster_rank();
                if (threadIdx.x == 0) {
                  auto& there = *static_cast<Mailbox*>(in_block(&box, other));
                  if (right) there.words[2] = 7;
                  box.inbox.send(&box.words[0], other, 7U);
                  box.other.send(&box.words[1], other, 8U);
                  if (!right) there.words[2] = 7;
                }
                box.inbox.await(), box.other.await();
                if (threadIdx.x == 32) box.words[3] = box.words[2];
                cluster_arrive(), cluster_wait();
              },
              {"writes", "reads"});
}

// Who reads what mail overwrites must have said so to the sender.
TEST(Races, MailThatOverwritesWhatIsRead) {
  expect_race(pair,
              [](bool right) {
                Mailbox& box = shared<Mailbox>();
                open_mailbox(box);
                if (threadIdx.x == 0) box.words[0] = 1, box.other.send(&box.words[1], 1 - cluster_rank(), 8U);
                __syncthreads();
                if (threadIdx.x == 32) box.words[2] = box.words[0];
                if (right) cluster_arrive(), cluster_wait();
                if (threadIdx.x == 0) box.inbox.send(&box.words[0], 1 - cluster_rank(), 7U);
                box.inbox.await(), box.other.await();
              },
              {"warp 0 of block", "sends mail"});
}

TEST(Races, LanesOfAWarpAreNotToldApart) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    seed_schedules(seed);
    run({.threads = 32, .shared_bytes = 4}, [] { shared<std::uint32_t>() = threadIdx.x; });
  }
}

TEST(Races, ALaneThatIsBehindIsWaitedForWithItsWarp) {
  run({.threads = 64, .shared_bytes = 4}, [] {
    if (threadIdx.x % 3 == 0) cuda::arrive_at(4, 1000);
    if (threadIdx.x == 1) shared<std::uint32_t>() = 1;
    __syncthreads();
    if (threadIdx.x == 33) shared<std::uint32_t>() = 2;
  });
}

}  // namespace
}  // namespace lynx::on_cpu
