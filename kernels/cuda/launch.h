// How every kernel here is launched: on the caller's stream, no host synchronisation, no allocation, so that
// launches can be captured into a graph. A refused launch throws std::runtime_error with CUDA's reason.
//
// Programmatic dependent launch: a kernel launched with Overlap::kPrevious may start while the kernels before
// it in the stream still run, as soon as all of their blocks have called release_dependents() (warp.cuh),
// which they do first of all. Every such kernel calls grid_dependency_wait() in all of its blocks, before the
// first access to anything that an earlier kernel of the step wrote and before any early return: that its
// blocks have ended must mean that all earlier kernels have ended too. Before that it may read constants,
// weights, the step's staged rows (paged_kv.h) and the tokens that the KV pool held before the step's first
// kernel: the copies of staged rows, which lie between two steps, let none run ahead into the next. It may
// also read what was there before a kernel ahead of it that calls release_dependents() only after its own
// wait; and a plan's hints (device_plan.h), which may say anything.
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

unsigned multiprocessors();  // of the current device
bool launches_overlap();     // Overlap::kPrevious has an effect there; asked once a process
// Launches of other processes may be on the multiprocessors at the same time (MPS); asked once a process.
bool shares_multiprocessors();

#ifdef __CUDACC__
template <typename... Params>
void allow_shared(const char* name, void (*kernel)(Params...), std::size_t bytes) {
  if (bytes <= 48 * 1024) return;
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          name);
}

struct LaunchConfig : cudaLaunchConfig_t {
  LaunchConfig(const Shape& shape, cudaStream_t on, Overlap overlap) : cudaLaunchConfig_t{} {
    if (overlap == Overlap::kPrevious && launches_overlap()) {
      list[numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      list[numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cluster > 1) {
      list[numAttrs].id = cudaLaunchAttributeClusterDimension;
      list[numAttrs++].val.clusterDim = {shape.cluster, 1, 1};
    }
    gridDim = shape.grid;
    blockDim = shape.block;
    dynamicSmemBytes = shape.shared_bytes;
    stream = on;
    attrs = list;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
  cudaLaunchAttribute list[2];
};

template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), const Shape& shape, cudaStream_t stream,
            Overlap overlap, const Args&... args) {
  allow_shared(name, kernel, shape.shared_bytes);
  const LaunchConfig config(shape, stream, overlap);
  require(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

// How many clusters of this shape the device holds at once.
template <typename... Params>
int max_active_clusters(const char* name, void (*kernel)(Params...), const Shape& shape) {
  allow_shared(name, kernel, shape.shared_bytes);
  int count = 0;
  if (shape.cluster == 1) {
    require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, static_cast<int>(shape.block.x),
                                                          shape.shared_bytes),
            name);
    return count * static_cast<int>(multiprocessors());
  }
  const LaunchConfig config(shape, nullptr, Overlap::kNone);
  require(cudaOccupancyMaxActiveClusters(&count, kernel, &config), name);
  return count;
}
#endif

}  // namespace lynx::cuda
