// What routing and its tests use of CUDA's runtime, where the device's memory is the host's.
#pragma once

#include <cstdlib>
#include <cstring>

struct uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorNoDevice };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
using cudaStream_t = struct CUstream_st*;

inline const char* cudaGetErrorString(cudaError_t) { return "of the emulator"; }
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  constexpr std::size_t kAlign = 256;  // as CUDA's
  *to = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  return *to == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
