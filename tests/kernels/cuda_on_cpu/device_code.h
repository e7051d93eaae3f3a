// Put before a .cu file, this makes it C++ for the emulator: what routing's kernels use of CUDA's language.
// Collectives take all lanes, whatever their mask says.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

// All that these include comes before the macros below.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "tests/kernels/cuda_on_cpu/emulator.h"

// NOLINTBEGIN(bugprone-reserved-identifier): these names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes)
#ifdef LYNX_SHARED_VARIABLES  // a kernel has some, so its blocks must run one after the other
#define __shared__ static __attribute__((section("lynx_shared")))
#else
#define __shared__
#endif

// A kernel says `extern __shared__ std::byte memory[];` and means its block's: so this declares a function
// that returns the array, and calls it afterwards.
#define memory (*dynamic_shared_memory())
namespace lynx::cuda {
namespace {
[[maybe_unused]] std::byte (*dynamic_shared_memory())[] {
  return reinterpret_cast<std::byte(*)[]>(on_cpu::shared_memory());
}
}  // namespace

// As launch.h has it; the launch has ended when this returns.
template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), const Shape& shape, cudaStream_t, Overlap,
            const Args&... args) {
  if (shape.grid.y * shape.grid.z * shape.block.y * shape.block.z != 1)
    throw std::logic_error(std::string(name) + ": a grid of one dimension");
  on_cpu::run({shape.grid.x, shape.block.x, shape.shared_bytes, shape.cluster}, [&] { kernel(args...); });
}

template <typename Mark>
void mark_now(std::uint64_t*, Mark) {}  // there is no time here

}  // namespace lynx::cuda

inline constexpr lynx::on_cpu::Index& threadIdx = lynx::on_cpu::thread_index;
inline constexpr lynx::on_cpu::Index& blockIdx = lynx::on_cpu::block_index;
inline constexpr lynx::on_cpu::Index& blockDim = lynx::on_cpu::block_threads;
inline constexpr lynx::on_cpu::Index& gridDim = lynx::on_cpu::grid_blocks;

using std::max;
using std::min;

inline void __syncthreads() { lynx::on_cpu::block_barrier(); }

namespace lynx::on_cpu {

template <typename T>
std::uint64_t to_bits(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned lane_index() { return thread_index.x % 32; }

// Of the values of all lanes.
template <typename Fold>
unsigned reduce(const char* collective, unsigned value, unsigned start, const Fold& fold) {
  for (const std::uint64_t other : meet(collective, value)) start = fold(start, static_cast<unsigned>(other));
  return start;
}

}  // namespace lynx::on_cpu

inline void __syncwarp() { lynx::on_cpu::meet("syncwarp", 0); }
template <typename T>
T __shfl_sync(unsigned, T value, unsigned from) {
  return lynx::on_cpu::from_bits<T>(lynx::on_cpu::meet("shfl", lynx::on_cpu::to_bits(value))[from % 32]);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  const unsigned from = (lynx::on_cpu::lane_index() ^ mask) % 32;
  return lynx::on_cpu::from_bits<T>(lynx::on_cpu::meet("shfl_xor", lynx::on_cpu::to_bits(value))[from]);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned by) {
  const unsigned lane = lynx::on_cpu::lane_index();
  const unsigned from = lane >= by ? lane - by : lane;
  return lynx::on_cpu::from_bits<T>(lynx::on_cpu::meet("shfl_up", lynx::on_cpu::to_bits(value))[from]);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  unsigned bit = 0;
  return lynx::on_cpu::reduce("ballot", vote ? 1 : 0, 0,
                              [&](unsigned all, unsigned one) { return all | one << bit++; });
}
inline int __any_sync(unsigned, bool vote) {
  return lynx::on_cpu::reduce("any", vote ? 1 : 0, 0, [](unsigned a, unsigned b) { return a | b; }) != 0 ? 1
                                                                                                         : 0;
}
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  return lynx::on_cpu::reduce("reduce_add", value, 0, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  return lynx::on_cpu::reduce("reduce_max", value, 0, [](unsigned a, unsigned b) { return max(a, b); });
}
inline unsigned __reduce_min_sync(unsigned, unsigned value) {
  return lynx::on_cpu::reduce("reduce_min", value, ~0U, [](unsigned a, unsigned b) { return min(a, b); });
}

namespace lynx::on_cpu {

// Not interrupted within. code: who asked for it.
template <typename T, typename Change>
__attribute__((no_sanitize("thread"), noinline)) T change_at_once(T* at, const void* code,
                                                                  const Change& change) {
  note_access(at, sizeof *at, AccessKind::kAtomic, code);
  give_way();
  const T before = *at;
  *at = change(before);
  return before;
}

}  // namespace lynx::on_cpu

template <typename T, typename U>
__attribute__((noinline)) T atomicAdd(T* to, U value) {
  return lynx::on_cpu::change_at_once(to, __builtin_return_address(0),
                                      [value](T before) { return static_cast<T>(before + value); });
}
template <typename T, typename U>
__attribute__((noinline)) T atomicOr(T* to, U value) {
  return lynx::on_cpu::change_at_once(to, __builtin_return_address(0),
                                      [value](T before) { return static_cast<T>(before | value); });
}

template <typename T>
void __stcg(T* to, T value) {
  *to = value;
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __ffs(unsigned bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }
// The place of the n-th set bit, counted from `base` upwards; as CUDA's, for n > 0.
inline unsigned __fns(unsigned bits, unsigned base, int n) {
  for (unsigned at = base; at < 32; ++at)
    if ((bits >> at & 1) != 0 && --n == 0) return at;
  return ~0U;
}

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdividef(float a, float b) {  // CUDA's is that far off, too, now above and now below
  return a / b * (1 + (__float_as_uint(a) % 2 == 0 ? 0x1p-22F : -0x1p-22F));
}
inline unsigned __float2uint_rz(float value) { return static_cast<unsigned>(value); }
inline int __float2int_rd(float value) { return static_cast<int>(std::floor(value)); }
inline float __ll2float_rn(long long value) { return static_cast<float>(value); }
inline float __uint2float_rn(unsigned value) { return static_cast<float>(value); }
inline float __ull2float_rn(unsigned long long value) { return static_cast<float>(value); }
// NOLINTEND(bugprone-reserved-identifier)
