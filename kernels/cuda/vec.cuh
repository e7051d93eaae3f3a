// 16-byte accesses, and rows of f32 or bf16 read and written eight elements at a time.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {

// Read once, so it does not displace what is read again. Constant for the whole step: weights.
__device__ inline uint4 load_weight(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
// The same for what an earlier kernel of the step may have written.
__device__ inline uint4 load_streaming(const void* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000U); }

__device__ inline void load8(float (&v)[8], const float* from) {
  const float4 a = reinterpret_cast<const float4*>(from)[0];
  const float4 b = reinterpret_cast<const float4*>(from)[1];
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
  v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ inline void load8(float (&v)[8], const __nv_bfloat16* from) {
  const uint4 a = *reinterpret_cast<const uint4*>(from);
  v[0] = low_bf16(a.x), v[1] = high_bf16(a.x), v[2] = low_bf16(a.y), v[3] = high_bf16(a.y);
  v[4] = low_bf16(a.z), v[5] = high_bf16(a.z), v[6] = low_bf16(a.w), v[7] = high_bf16(a.w);
}

__device__ inline uint4 pack8(const float (&v)[8]) {
  return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
}

__device__ inline void store8(float* to, const float (&v)[8]) {
  reinterpret_cast<float4*>(to)[0] = {v[0], v[1], v[2], v[3]};
  reinterpret_cast<float4*>(to)[1] = {v[4], v[5], v[6], v[7]};
}

__device__ inline void store8(__nv_bfloat16* to, const float (&v)[8]) {
  *reinterpret_cast<uint4*>(to) = pack8(v);
}

// One element, rounded to the row's type.
__device__ inline void store1(float* to, float value) { *to = value; }
__device__ inline void store1(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

// Two neighbours, the first at an even place.
__device__ inline void store2(float* to, float a, float b) { *reinterpret_cast<float2*>(to) = {a, b}; }
__device__ inline void store2(__nv_bfloat16* to, float a, float b) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(a, b);
}

}  // namespace lynx::cuda
