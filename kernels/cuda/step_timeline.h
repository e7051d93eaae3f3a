// When each kernel of a step may begin, for `lynx-bench step --timeline`. In builds with
// -DLYNX_STEP_TIMELINE=ON the first block of every kernel leaves a record when all kernels before it have
// ended; other builds hold nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lynx::cuda {

// Nanoseconds of the device's global timer, which ticks every 256 or 32 of them.
struct StepMark {
  std::uint64_t waits;  // the block runs, and begins to wait
  std::uint64_t ready;  // 0: no record
  std::uint32_t blocks, threads;
  std::uint64_t unused;
};
// A mark's place is its time, so that nobody counts: room for the 33 ms after which places come again.
inline constexpr std::size_t kStepMarks = std::size_t{1} << 20;
inline constexpr std::uint64_t kStepTick = 32;

// Each unit of code with kernels has a pointer of its own to the marks; null: it leaves none. One thread.
using SetStepMarks = void (*)(StepMark*);
inline std::vector<SetStepMarks>& step_mark_setters() {
  static std::vector<SetStepMarks> all;
  return all;
}

}  // namespace lynx::cuda
