// Shared memory by address, and asynchronous copies of a thread into it (cp.async).
#pragma once

#include <cstdint>

namespace lynx::cuda {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Does not move past barriers and other volatile instructions, as a plain load might.
__device__ inline uint4 load_shared(const void* from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(shared_address(from)));
  return v;
}

// 16 bytes, past L1.
__device__ inline void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
// Or 16 zeros: `from` is not read then, but an address in global memory all the same.
__device__ inline void copy_16_or_zeros(void* to, const void* from, bool copy) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(copy ? 16 : 0)
               : "memory");
}
// 4 bytes: only 16 can go past L1.
__device__ inline void copy_4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// The copies since the last call are a group.
__device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until what this thread copied is there, but for the kYounger last groups.
template <unsigned kYounger>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kYounger) : "memory");
}
// Those that belong to no group yet, too.
__device__ inline void wait_for_all_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace lynx::cuda
