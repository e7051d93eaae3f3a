// A ring of stages in shared memory: one warp fills them by bulk copies, `users` others empty them. Every
// user passes every stage, also one that it has no work on: waiting by parity tells a stage's filling from
// the one before alone, so nobody may fall behind by more.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

inline constexpr unsigned kMaxStages = 8;

struct RingBarriers {
  std::uint64_t full[kMaxStages];
  std::uint64_t empty[kMaxStages];

  // One thread, before anybody uses the ring. users: warps that pass each stage.
  __device__ void init(unsigned users) {
#pragma unroll 1
    for (unsigned s = 0; s < kMaxStages; ++s) {
      barrier_init(full[s], 1);
      barrier_init(empty[s], users * kWarp);
    }
    publish_barriers();
  }
};

struct Ring {
  std::byte* stages;  // aligned to 128
  unsigned length;
  unsigned stage_bytes;
  RingBarriers& barriers;

  __device__ std::byte* stage(unsigned at) const { return stages + at * stage_bytes; }
};

struct StageCursor {
  unsigned at = 0;
  unsigned parity = 0;

  __device__ void advance(const Ring& ring) {
    if (++at == ring.length) {
      at = 0;
      parity ^= 1;
    }
  }
  __device__ void wait_full(const Ring& ring) const { wait(ring.barriers.full[at], parity); }
  // By one warp that uses the stage, when it has read it: the next one is the ring's turn. Every lane for
  // what it has read itself: one lane for its warp, after a __syncwarp, was no faster, and a checker of races
  // that follows barriers alone (compute-sanitizer's) does not see what that is for.
  __device__ void pass(const Ring& ring) {
    arrive(ring.barriers.empty[at]);
    advance(ring);
  }
};

// The warp that fills. Two stages are on their way at a time: more would not make memory faster, and
// everybody else's accesses would wait behind them.
class RingFiller {
 public:
  __device__ explicit RingFiller(const Ring& ring) : ring_(ring) {}

  // The next stage, free; `bytes` will come. The whole warp calls, and copies after it.
  __device__ std::byte* begin(unsigned bytes) {
    wait(ring_.barriers.empty[next_.at], next_.parity ^ 1);
    if (under_way_ == kUnderWay) {
      landed_.wait_full(ring_);
      landed_.advance(ring_);
    } else {
      ++under_way_;
    }
    if (threadIdx.x % kWarp == 0) arrive_expecting(full(), bytes);
    __syncwarp();
    return ring_.stage(next_.at);
  }
  __device__ std::uint64_t& full() const { return ring_.barriers.full[next_.at]; }
  __device__ void end() { next_.advance(ring_); }

 private:
  static constexpr unsigned kUnderWay = 2;
  const Ring& ring_;
  StageCursor next_;
  StageCursor landed_;  // the oldest that was not seen to have come
  unsigned under_way_ = 0;
};

}  // namespace lynx::cuda
