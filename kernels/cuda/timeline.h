// Times inside kernels, for `lynx-bench kernel --timeline` and `dense --timeline`. A kernel that is given a
// buffer leaves one record a block in it; without one a mark is a branch that is never taken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lynx::cuda {

// Moments, in nanoseconds of the device's global timer, then sums of cycles (kWaitTask and after).
enum class ExpertsMark : std::uint32_t {
  kStart,        // the block runs
  kReady,        // it may read the plan
  kFirstFound,   // it knows its first task
  kFirstIssue,   // weights asked for
  kFirstInputs,  // rows asked for
  kFirstFull,    // a stage is there
  kFirstTask,    // its first task is multiplied
  kGateUpTold,   // its last gate-up task is known to others
  kDownReady,    // the first down task has its activations
  kLastIssue,    // the last weights asked for
  kLastFull,     // the last stage is there
  kWritten,      // the last task is written
  kTold,         // and known to others
  kEnd,          // the weighted sums are written
  kWaitTask,     // consumers: for a task
  kWaitStage,    // consumers: for weights and rows
  kOutputs,      // consumers: sums and writes
  kWaitTeller,   // consumers: for the teller
  kGate,         // producer of inputs: for gate-up tasks
  kTasks,        // a count
  kCycles,       // from kStart to kEnd
  kCount,
};

// Of the thread of a block's first row. lynx and off then run the kernel that all policies share: slower than
// the ones of their own that they have without a buffer.
enum class RouteMark : std::uint32_t {
  kStart,
  kReady,   // may read logits
  kLoaded,  // has them
  kVoted,   // on its exact top-k
  kActive,  // knows the active experts, but for what is still added to them
  kChosen,  // only where rows choose again: has its experts
  kPlaced,  // knows where they stand in the plan
  kEnd,
  kCount,
};

// Of attention_block.cu, by a block's first thread.
enum class BlockMark : std::uint32_t {
  kStart,
  kReady,       // may read x
  kNormed,      // its k of the rows are there
  kMultiplied,  // its share of qkv
  kAdded,       // the cluster's sums are written
  kMet,         // by every block
  kAttended,    // its parts are written
  kAllAttended,
  kMerged,
  kAllMerged,
  kLoaded,     // its k of the merged rows are there
  kProjected,  // its share of o
  kEnd,        // the cluster's sums are written
  kCount,
};

inline constexpr std::size_t kBlockMarks = static_cast<std::size_t>(BlockMark::kCount);
inline constexpr std::size_t kExpertsMarks = static_cast<std::size_t>(ExpertsMark::kCount);
inline constexpr std::size_t kRouteMarks = static_cast<std::size_t>(RouteMark::kCount);

#ifdef __CUDACC__
template <typename Mark>
__device__ inline void set_mark(std::uint64_t* timeline, Mark mark, std::uint64_t value) {
  timeline[blockIdx.x * static_cast<std::uint32_t>(Mark::kCount) + static_cast<std::uint32_t>(mark)] = value;
}

__device__ inline std::uint64_t global_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  return now;
}

template <typename Mark>
__device__ inline void mark_now(std::uint64_t* timeline, Mark mark) {
  if (timeline != nullptr) set_mark(timeline, mark, global_nanoseconds());
}
// The same for a thread that marks much: its block's record is found once. Null: it marks nothing.
template <typename Mark>
__device__ inline std::uint64_t* record_of_block(std::uint64_t* timeline, bool marks) {
  return timeline == nullptr || !marks ? nullptr
                                       : timeline + blockIdx.x * static_cast<std::uint32_t>(Mark::kCount);
}

// Sums up what lies between start() and stop(); one thread.
class Stopwatch {
 public:
  __device__ explicit Stopwatch(bool on) : on_(on) {}
  __device__ void start() {
    if (on_) since_ = clock();
  }
  __device__ void stop() {
    if (!on_) return;
    if (first_ == 0) first_ = global_nanoseconds();
    total_ += clock() - since_;
  }
  __device__ std::uint32_t total() const { return total_; }
  __device__ std::uint64_t first() const { return first_; }  // when it was first stopped

 private:
  bool on_;
  std::uint32_t since_ = 0;
  std::uint32_t total_ = 0;
  std::uint64_t first_ = 0;
};
#endif

}  // namespace lynx::cuda
