// Bulk copies from global to shared memory, the barriers in shared memory that count their bytes, and flags
// between the blocks of a launch. Needs compute capability 9.0.
#pragma once

#include <cstdint>

#include "kernels/cuda/shared_memory.cuh"

namespace lynx::cuda {

__device__ inline void barrier_init(std::uint64_t& barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals));
}
// Initialised barriers become visible to the copy engine; a block barrier must follow.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ inline void arrive_expecting(std::uint64_t& barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}
// Until the phase of that parity has completed: then what this block, or the copy engine for it, wrote before
// is there.
__device__ inline void wait(std::uint64_t& barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra complete;\n"
      "bra again;\n"
      "complete:\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}
// The same for what other blocks of the cluster wrote.
__device__ inline void wait_for_cluster(std::uint64_t& barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra complete;\n"
      "bra again;\n"
      "complete:\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

// Whether it has.
__device__ inline bool has_completed(std::uint64_t& barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// A position in a ring of kLength, and the parity of its barriers there; every role walks the same sequence.
template <std::uint32_t kLength>
struct Cursor {
  std::uint32_t at = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++at == kLength) {
      at = 0;
      parity ^= 1;
    }
  }
};

// For data that is read once per launch: it should be the first to leave L2.
__device__ inline std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline std::uint64_t evict_normal_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Addresses and bytes are multiples of 16. The barrier must have been told to expect the bytes.
__device__ inline void bulk_copy(void* to, const void* from, std::uint32_t bytes, std::uint64_t& barrier,
                                 std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&barrier)), "l"(policy)
      : "memory");
}

// Asks for the data to be in L2. The address and bytes are multiples of 16.
__device__ inline void prefetch_to_l2(const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}

// Orders this thread's accesses to global memory with those of the copy engine.
__device__ inline void copy_engine_fence() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Orders what this thread has seen and written with what others of the device see: cheaper than
// __threadfence(), which also orders it among all such fences.
__device__ inline void device_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ inline std::uint32_t load_acquire(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ inline std::uint32_t load_relaxed(const std::uint32_t* p) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

// One side of a barrier waits, the other goes on.
__device__ inline void wait_at(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_at(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// A barrier of some warps of the block. One barrier always has the same number of threads.
__device__ inline void sync_threads(std::uint32_t barrier, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace lynx::cuda
