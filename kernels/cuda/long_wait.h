// Blocks of a launch that wait for one another. What cannot take longer than a kernel does must not hold the
// GPU for ever when something is wrong: after some ten seconds the kernel says what it waited for and ends
// with an error (cudaErrorLaunchFailure, which stays with the process).
//
// Everything else that a block waits for comes from its own warps, its copies or its own cluster, whose
// blocks start together: if that does not come, somebody waits here, or the code is wrong.
#pragma once

#include <cstdint>
#include <string>

namespace lynx::cuda {

enum class LongWait : std::uint32_t {
  kNone,
  kMeeting,  // attention_block.cu: for all blocks of the grid
  kGateUp,   // experts.cu: for the activations of an expert; experts_lone.cu: for these and for a slot's
             // outputs
};

// What the last kernel of a process has said, in pinned host memory: a LongWait above, the block below. 0:
// nothing.
using LongWaitNote = std::uint64_t;
inline constexpr unsigned kWaitOfNote = 32;  // shift

// "; block 3 of the attention block waited ...", or empty.
std::string describe(LongWaitNote note);

#ifdef __CUDACC__
inline constexpr unsigned kPatience = 3;             // ticks of 2^32 ns: 8.6 s at least
inline constexpr unsigned kRoundsOfLook = 1U << 14;  // some 10 ms

// since: what the look before returned, 0 for the first.
static __device__ __noinline__ unsigned look_at_time(unsigned since, LongWaitNote* note, LongWait what) {
  unsigned now;
  asm volatile("mov.u32 %0, %globaltimer_hi;" : "=r"(now)::"memory");
  if (since == 0) return now;
  if (now - since < kPatience) return since;
  if (note != nullptr) {
    *static_cast<volatile LongWaitNote*>(note) =
        std::uint64_t{static_cast<std::uint32_t>(what)} << kWaitOfNote | blockIdx.x;
    __threadfence_system();
  }
  __trap();
  return since;
}

// Until done(). note: in pinned host memory, or null.
template <typename Done>
__device__ void wait_for_blocks(const Done& done, LongWaitNote* note, LongWait what) {
  unsigned since = 0;
#pragma unroll 1
  for (unsigned round = 1; !done(); ++round)
    if (round % kRoundsOfLook == 0) since = look_at_time(since, note, what);
}
#endif

}  // namespace lynx::cuda
