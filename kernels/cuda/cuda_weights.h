// Weights in device memory: matrices as the checkpoint has them, experts packed for the expert kernels. bf16;
// what a file holds in f32 is rounded.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/experts.h"

namespace lynx::cuda {

struct CudaMatrix final : Matrix {
  CudaMatrix(std::span<const HostTensor> parts, DeviceHeap& heap);  // throws std::runtime_error
  const std::uint16_t* weights() const { return reinterpret_cast<const std::uint16_t*>(memory.get()); }
  DeviceMemory memory;  // [n, k]
};

struct CudaExperts final : ExpertWeights {
  // Throws std::runtime_error naming what the kernels do not cover.
  CudaExperts(std::span<const ExpertTensors> tensors, DeviceHeap& heap, cudaStream_t stream);
  ExpertShape shape() const { return {experts, hidden, intermediate}; }
  DeviceMemory memory;  // [N] packed
};

// The tensor's elements as `as`, straight from it where it has that type and alignment, else from `scratch`.
std::span<const std::byte> elements_as(const HostTensor& tensor, Dtype as, std::vector<std::byte>& scratch);

}  // namespace lynx::cuda
