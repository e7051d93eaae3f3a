// Two sets of kernels for what decode is made of, and for the experts of prompts. One is for Hopper (compute
// capability 9.0: clusters, bulk copies, wgmma), the other, plain and slower, for GPUs from 8.0 to 8.9. The
// plans are the same bit for bit; everything else promises the same row invariance.
//
// Chosen when the GPU is opened, and handed down in the arguments.
#pragma once

#include <cstdint>

namespace lynx::cuda {

enum class KernelSet : std::uint8_t { kHopper, kPortable };

// Of the current device. A Hopper, too, runs the portable ones with LYNX_CUDA_PORTABLE=1 in the environment:
// for tests and comparisons.
KernelSet kernels_of_device();

}  // namespace lynx::cuda
