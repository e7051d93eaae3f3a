// How every kernel here is launched: on the caller's stream, no host synchronisation, no allocation, so that
// launches can be captured into a graph. A refused launch throws std::runtime_error with CUDA's reason.
//
// Programmatic dependent launch: a kernel launched with Overlap::kPrevious may start while the kernel before
// it in the stream drains. Every such kernel calls grid_dependency_wait() (warp.cuh) in all of its blocks,
// before the first access to anything that an earlier kernel of the step wrote, and before any early return:
// that its blocks have ended must mean that all earlier kernels have ended too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace lynx::cuda {

inline void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

struct Shape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of a cluster, along x
};

enum class Overlap { kNone, kPrevious };

#ifdef __CUDACC__
template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), const Shape& shape, cudaStream_t stream,
            Overlap overlap, const Args&... args) {
  if (shape.shared_bytes > 48 * 1024) {
    require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            name);
  }
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (overlap == Overlap::kPrevious) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {shape.cluster, 1, 1};
    ++count;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  require(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}
#endif

unsigned multiprocessors();  // of the current device

}  // namespace lynx::cuda
