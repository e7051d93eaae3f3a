#include "kernels/cuda/launch.h"

namespace lynx::cuda {

unsigned multiprocessors() {
  int device = 0;
  int count = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return static_cast<unsigned>(count);
}

}  // namespace lynx::cuda
