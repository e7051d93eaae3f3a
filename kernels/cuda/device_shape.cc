#include <cstdlib>

#include "kernels/cuda/kernel_set.h"
#include "kernels/cuda/launch.h"

namespace lynx::cuda {
namespace {

bool is_hopper() {
  int device = 0;
  int major = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "cudaDeviceGetAttribute");
  return major == 9;
}

}  // namespace

unsigned multiprocessors() {
  int device = 0;
  int count = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return static_cast<unsigned>(count);
}

// Only there the kernels are compiled with the calls that order such launches.
bool launches_overlap() {
  static const bool overlap = is_hopper();
  return overlap;
}

bool shares_multiprocessors() {
  static const bool shares = [] {
    int device = 0;
    int mps = 0;
    require(cudaGetDevice(&device), "cudaGetDevice");
    return cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, device) == cudaSuccess && mps != 0;
  }();
  return shares;
}

KernelSet kernels_of_device() {
  const char* portable = std::getenv("LYNX_CUDA_PORTABLE");
  const bool wants_portable = portable != nullptr && std::string(portable) == "1";
  return is_hopper() && !wants_portable ? KernelSet::kHopper : KernelSet::kPortable;
}

}  // namespace lynx::cuda
