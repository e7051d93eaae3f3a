// What the GPU can do at most, measured in the same run as what is held against it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lynx::cuda {

// Bytes per second that one kernel reads from a buffer of that size, launched from a graph: the median of
// several passes. A few gigabytes give the memory's rate; what one layer reads gives what start and end of a
// launch leave of it.
double device_read_bandwidth(std::size_t bytes);

// Random bf16 values of about that standard deviation: never time on zeros.
void fill_random_bf16(void* to, std::size_t count, float spread, std::uint64_t seed, cudaStream_t stream);

}  // namespace lynx::cuda
