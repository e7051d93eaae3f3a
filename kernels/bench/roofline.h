// What this machine can do at most: the ceilings that benchmarks divide by. Measured in the same run as the
// value, because other processes and the clock frequency move both.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lynx {

// Bytes per second that `threads` threads read from a buffer of that size, over and over: the best of several
// passes. A buffer far above the caches gives the memory's rate; one of a step's size gives what the caches
// leave of it.
double read_bandwidth(unsigned threads, std::size_t bytes);

// Seconds of oneDNN for f32 [m, k] x [k, n] with weights in its own preferred layout: the best of several
// runs.
double onednn_matmul_seconds(unsigned threads, std::uint32_t m, std::uint32_t n, std::uint32_t k);

}  // namespace lynx
