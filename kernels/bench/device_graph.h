// Device memory and a captured graph with its replay times, for the benchmarks of kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "kernels/cuda/launch.h"

namespace lynx::cuda {

struct FreeDevice {
  void operator()(void* p) const { cudaFree(p); }
};
template <typename T>
using DeviceBlock = std::unique_ptr<T, FreeDevice>;

template <typename T>
DeviceBlock<T> allocate_block(std::size_t count) {  // zeroed
  void* p = nullptr;
  require(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
  DeviceBlock<T> block(static_cast<T*>(p));
  require(cudaMemset(p, 0, count * sizeof(T)), "cudaMemset");
  return block;
}

template <typename T>
DeviceBlock<T> upload_block(std::span<const T> values) {
  DeviceBlock<T> block = allocate_block<T>(values.size());
  require(cudaMemcpy(block.get(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return block;
}

// Captures what `enqueue` launches and replays it: the median of `replays` in microseconds, after two to warm
// up.
double graph_microseconds(const std::function<void(cudaStream_t)>& enqueue, unsigned replays);

}  // namespace lynx::cuda
