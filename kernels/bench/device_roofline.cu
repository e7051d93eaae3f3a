#include "kernels/bench/device_roofline.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <memory>

#include "kernels/bench/device_graph.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kLoads = 8;  // in flight for each thread

__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* data, std::size_t count, unsigned* sink) {
  unsigned sum = 0;
  const std::size_t step = std::size_t{gridDim.x} * kThreads * kLoads;
  for (std::size_t first = std::size_t{blockIdx.x} * kThreads * kLoads + threadIdx.x; first < count;
       first += step) {
    uint4 v[kLoads];
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const std::size_t at = first + std::size_t{i} * kThreads;
      v[i] = at < count ? load_streaming(data + at) : uint4{};
    }
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (sum == 0x12345678U) *sink = sum;
}

__device__ std::uint32_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7FB5D329728EA185ULL;
  x = (x ^ (x >> 27)) * 0x81DADEF4BC2DD44DULL;
  return static_cast<std::uint32_t>(x >> 32);
}

__global__ void fill_kernel(__nv_bfloat16* to, std::size_t count, float spread, std::uint64_t seed) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const float unit = static_cast<float>(mix(seed + i * 0x9E3779B97F4A7C15ULL) >> 8) * 0x1p-24F - 0.5F;
    to[i] = __float2bfloat16_rn(unit * 3.46F * spread);  // uniform
  }
}

}  // namespace

double device_read_bandwidth(std::size_t bytes) {
  // Small buffers: several of them in turn, so that none is still in L2.
  const std::size_t copies = std::max<std::size_t>(1, (std::size_t{1} << 30) / bytes);
  void* data = nullptr;
  require(cudaMalloc(&data, copies * bytes + sizeof(unsigned)), "cudaMalloc");
  const std::unique_ptr<void, decltype(&cudaFree)> owner(data, cudaFree);
  fill_random_bf16(data, copies * bytes / 2, 1, 1, nullptr);
  require(cudaDeviceSynchronize(), "random data");
  auto* first = static_cast<std::byte*>(data);
  auto* sink = reinterpret_cast<unsigned*>(first + copies * bytes);
  double best = 0;
  for (const unsigned blocks : {1U, 2U, 3U, 4U}) {  // of a multiprocessor: none is the best for every size
    const double us = graph_microseconds(
        [&](cudaStream_t stream) {
          for (std::size_t i = 0; i < copies; ++i)
            launch("read", read_kernel, Shape{dim3(multiprocessors() * blocks), dim3(kThreads)}, stream,
                   Overlap::kNone, reinterpret_cast<const uint4*>(first + i * bytes), bytes / sizeof(uint4),
                   sink);
        },
        9);
    best = std::max(best, static_cast<double>(copies * bytes) / us * 1e6);
  }
  return best;
}

void fill_random_bf16(void* to, std::size_t count, float spread, std::uint64_t seed, cudaStream_t stream) {
  launch("fill", fill_kernel, Shape{dim3(multiprocessors() * 8), dim3(256)}, stream, Overlap::kNone,
         static_cast<__nv_bfloat16*>(to), count, spread, seed);
}

}  // namespace lynx::cuda
