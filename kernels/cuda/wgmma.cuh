// Products of a warpgroup (wgmma): 64 outputs by N rows and 16 inputs, weights in registers, rows in shared
// memory. Needs compute capability 9.0a.
//
// Such a product runs beside the warps that began it. From multiply_async to the wait_for_products that
// covers its group neither its sums nor its weights' registers may be touched.
#pragma once

#include <cstdint>

#include "kernels/cuda/bulk_copy.cuh"

namespace lynx::cuda {

// A thread's sums of up to 160 rows, in groups of 8. Products of fewer rows take the first of them. All
// numbers of rows belong into one loop: where each had a loop of its own, the assembler gave each registers
// of its own, ran out of them and let every product wait for the one before (C7512).
inline constexpr unsigned kMostRowGroups = 20;
using WarpgroupSums = float[kMostRowGroups][4];
template <unsigned kRows>
struct Rows {};

// Rows of 128 bytes (64 inputs), of which eight make 1024 bytes, aligned to as many; piece p of 16 bytes of
// row r stands at p ^ (r % 8). 16 inputs on: + kDescriptorOf16Inputs.
__device__ inline std::uint64_t swizzled_rows(const void* rows) {
  constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
  constexpr std::uint64_t kGroupStride = std::uint64_t{1024 / 16} << 32;
  constexpr std::uint64_t kUnusedStride = 1ULL << 16;
  return kSwizzle128 | kGroupStride | kUnusedStride | ((shared_address(rows) & 0x3FFFFU) / 16);
}
inline constexpr std::uint64_t kDescriptorOf16Inputs = 32 / 16;

// What this thread wrote to its registers before is there for the products that follow.
__device__ inline void before_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_of_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the kYounger last groups have ended.
template <unsigned kYounger>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kYounger) : "memory");
}
// Sums are read after the wait before this, not where the compiler would have them.
__device__ __forceinline__ void sums_are_there(WarpgroupSums& sum) {
#pragma unroll
  for (unsigned n = 0; n < kMostRowGroups; ++n)
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) asm volatile("" : "+f"(sum[n][i])::"memory");
}

// Shared memory that other threads wrote, and have told this one so, is there for products that read it.
__device__ inline void written_rows_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// sum += weights x rows. weights: warp w of the warpgroup has outputs 16 w .. + 15 as in mma_16816
// (warp.cuh), and sum [N / 8] holds its sums for groups of 8 rows, as there.
#define LYNX_FOUR_SUMS(n) "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
#define LYNX_SUMS_0 LYNX_FOUR_SUMS(0), LYNX_FOUR_SUMS(1)
#define LYNX_SUMS_1 LYNX_SUMS_0, LYNX_FOUR_SUMS(2), LYNX_FOUR_SUMS(3)
#define LYNX_SUMS_2 LYNX_SUMS_1, LYNX_FOUR_SUMS(4), LYNX_FOUR_SUMS(5)
#define LYNX_SUMS_3 LYNX_SUMS_2, LYNX_FOUR_SUMS(6), LYNX_FOUR_SUMS(7)
#define LYNX_SUMS_4 LYNX_SUMS_3, LYNX_FOUR_SUMS(8), LYNX_FOUR_SUMS(9)
#define LYNX_SUMS_5 LYNX_SUMS_4, LYNX_FOUR_SUMS(10), LYNX_FOUR_SUMS(11)
#define LYNX_SUMS_6 LYNX_SUMS_5, LYNX_FOUR_SUMS(12), LYNX_FOUR_SUMS(13)
#define LYNX_SUMS_7 LYNX_SUMS_6, LYNX_FOUR_SUMS(14), LYNX_FOUR_SUMS(15)
#define LYNX_SUMS_8 LYNX_SUMS_7, LYNX_FOUR_SUMS(16), LYNX_FOUR_SUMS(17)
#define LYNX_SUMS_9 LYNX_SUMS_8, LYNX_FOUR_SUMS(18), LYNX_FOUR_SUMS(19)
#define LYNX_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define LYNX_NAMES_1 LYNX_NAMES_0 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LYNX_NAMES_2 LYNX_NAMES_1 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define LYNX_NAMES_3 LYNX_NAMES_2 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define LYNX_NAMES_4 LYNX_NAMES_3 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LYNX_NAMES_5 LYNX_NAMES_4 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LYNX_NAMES_6 LYNX_NAMES_5 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LYNX_NAMES_7 LYNX_NAMES_6 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define LYNX_NAMES_8 LYNX_NAMES_7 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define LYNX_NAMES_9 LYNX_NAMES_8 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define LYNX_MULTIPLY(rows, names, sums, a0, a1, a2, a3, b)                                            \
  __device__ __forceinline__ void multiply_async(Rows<rows>, WarpgroupSums& sum, const uint4& weights, \
                                                 std::uint64_t descriptor) {                           \
    asm volatile(                                                                                      \
        "{\n"                                                                                          \
        ".reg .pred add;\n"                                                                            \
        "setp.eq.u32 add, 1, 1;\n"                                                                     \
        "wgmma.mma_async.sync.aligned.m64n" #rows "k16.f32.bf16.bf16 {" names "}, {%" #a0 ", %" #a1    \
        ", %" #a2 ", %" #a3 "}, %" #b                                                                  \
        ", add, 1, 1, 0;\n"                                                                            \
        "}\n"                                                                                          \
        : sums                                                                                         \
        : "r"(weights.x), "r"(weights.y), "r"(weights.z), "r"(weights.w), "l"(descriptor));            \
  }
LYNX_MULTIPLY(16, LYNX_NAMES_0, LYNX_SUMS_0, 8, 9, 10, 11, 12)
LYNX_MULTIPLY(32, LYNX_NAMES_1, LYNX_SUMS_1, 16, 17, 18, 19, 20)
LYNX_MULTIPLY(48, LYNX_NAMES_2, LYNX_SUMS_2, 24, 25, 26, 27, 28)
LYNX_MULTIPLY(64, LYNX_NAMES_3, LYNX_SUMS_3, 32, 33, 34, 35, 36)
LYNX_MULTIPLY(80, LYNX_NAMES_4, LYNX_SUMS_4, 40, 41, 42, 43, 44)
LYNX_MULTIPLY(96, LYNX_NAMES_5, LYNX_SUMS_5, 48, 49, 50, 51, 52)
LYNX_MULTIPLY(112, LYNX_NAMES_6, LYNX_SUMS_6, 56, 57, 58, 59, 60)
LYNX_MULTIPLY(128, LYNX_NAMES_7, LYNX_SUMS_7, 64, 65, 66, 67, 68)
LYNX_MULTIPLY(144, LYNX_NAMES_8, LYNX_SUMS_8, 72, 73, 74, 75, 76)
LYNX_MULTIPLY(160, LYNX_NAMES_9, LYNX_SUMS_9, 80, 81, 82, 83, 84)
#undef LYNX_MULTIPLY
#undef LYNX_FOUR_SUMS
#undef LYNX_SUMS_0
#undef LYNX_NAMES_0
#undef LYNX_SUMS_1
#undef LYNX_NAMES_1
#undef LYNX_SUMS_2
#undef LYNX_NAMES_2
#undef LYNX_SUMS_3
#undef LYNX_NAMES_3
#undef LYNX_SUMS_4
#undef LYNX_NAMES_4
#undef LYNX_SUMS_5
#undef LYNX_NAMES_5
#undef LYNX_SUMS_6
#undef LYNX_NAMES_6
#undef LYNX_SUMS_7
#undef LYNX_NAMES_7
#undef LYNX_SUMS_8
#undef LYNX_NAMES_8
#undef LYNX_SUMS_9
#undef LYNX_NAMES_9

}  // namespace lynx::cuda
