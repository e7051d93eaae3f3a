// Blocks of a cluster that write into one another's shared memory, and blocks of a grid that wait for one
// another. Needs compute capability 9.0.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/long_wait.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of all blocks of the cluster.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// Where all that the others must see is a barrier that publish_barriers() has published: without the fence,
// which waits for whatever its thread has under way.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Where the same variable lies in the shared memory of another block.
__device__ inline std::uint32_t remote_address(const void* p, unsigned block) {
  std::uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(p)), "r"(block));
  return remote;
}

// What the blocks of a cluster send one another: stores into the receiver's shared memory, counted by a
// barrier there. No fence on either side, which would cost as much as all the rest. Every block expects its
// bytes before the cluster's blocks have met for the first time.
class Inbox {
 public:
  // One thread, once: so many bytes will come.
  __device__ void expect(std::uint32_t bytes) {
    barrier_init(arrived_, 1);
    publish_barriers();
    arrive_expecting(arrived_, bytes);
  }
  __device__ void await() { wait_for_cluster(arrived_, 0); }

  // To the same place in the shared memory of another block (or this one).
  __device__ void send(std::uint32_t* to, unsigned block, std::uint32_t value) const {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     remote_address(to, block)),
                 "r"(value), "r"(remote_address(&arrived_, block))
                 : "memory");
  }
  __device__ void send(float* to, unsigned block, float value) const {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                     remote_address(to, block)),
                 "f"(value), "r"(remote_address(&arrived_, block))
                 : "memory");
  }

 private:
  friend class Sender;
  friend class Peer;
  std::uint64_t arrived_;
};

// Another block of the cluster whose shared memory is laid out as this one's: words sent to their own place.
class Peer {
 public:
  Peer() = default;
  // base: any place in this block's shared memory.
  __device__ Peer(const void* base, unsigned block)
      : away_(remote_address(base, block) - shared_address(base)) {}
  __device__ void send(const Inbox& inbox, std::uint32_t* to, std::uint32_t value) const {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     shared_address(to) + away_),
                 "r"(value), "r"(shared_address(&inbox.arrived_) + away_)
                 : "memory");
  }
  __device__ void send(const Inbox& inbox, uint4* to, uint4 value) const {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(shared_address(to) + away_),
        "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(shared_address(&inbox.arrived_) + away_)
        : "memory");
  }

 private:
  std::uint32_t away_ = 0;
};

// Many stores to one block.
class Sender {
 public:
  __device__ Sender(const Inbox& inbox, float* to, unsigned block)
      : to_(remote_address(to, block)), arrived_(remote_address(&inbox.arrived_, block)) {}
  __device__ void send(unsigned index, float a, float b) const {  // to [index] and [index + 1]
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            to_ + index * static_cast<unsigned>(sizeof(float))),
        "f"(a), "f"(b), "r"(arrived_)
        : "memory");
  }
  __device__ void send4(unsigned index, const float (&v)[4]) const {  // index: a multiple of 4
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(to_ + index * static_cast<unsigned>(sizeof(float))),
        "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(arrived_)
        : "memory");
  }

 private:
  std::uint32_t to_, arrived_;
};

// The meetings of a grid whose blocks are all resident, one counter each; all counters are zero before the
// first launch, and each launch leaves them so, but for the last, which the next launch clears.
class GridMeetings {
 public:
  // note: see long_wait.h.
  __device__ GridMeetings(std::uint32_t* counters, unsigned count, LongWaitNote* note)
      : counters_(counters), count_(count), note_(note) {}

  // After grid_dependency_wait(), before the first meeting; one thread of the grid.
  __device__ void begin() const { counters_[count_ - 1] = 0; }

  // By `threads` threads from thread 0 on: what all blocks wrote before it, all see after it.
  template <unsigned kBarrier>
  __device__ void meet(unsigned threads) {
    arrive<kBarrier>(threads);
    await<kBarrier>(threads);
  }
  // The same in two steps. Thread 0 has arrived when the first one returns.
  template <unsigned kBarrier>
  __device__ void arrive(unsigned threads) const {
    sync_threads(kBarrier, threads);
    if (threadIdx.x == 0)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counters_ + next_) : "memory");
  }
  template <unsigned kBarrier>
  __device__ void await(unsigned threads) {
    if (threadIdx.x == 0) {
      const std::uint32_t* counter = counters_ + next_;
      wait_for_blocks([&] { return load_acquire(counter) >= gridDim.x; }, note_, LongWait::kMeeting);
      // Everybody is past the meeting before this one.
      if (blockIdx.x == 0 && next_ > 0) counters_[next_ - 1] = 0;
    }
    ++next_;
    sync_threads(kBarrier, threads);
  }

 private:
  std::uint32_t* counters_;
  unsigned count_;
  LongWaitNote* note_;
  unsigned next_ = 0;
};

}  // namespace lynx::cuda
