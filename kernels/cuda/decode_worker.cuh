// The pieces of decode_attention.cu: what a launch gets, and one warp's share of a task.
//
// Everything is transposed so that the 8 query heads fill the narrow side of mma.m16n8k16: scores are
// K q^T [16 keys, 8 heads], outputs V^T p^T [16 of D, 8 heads]. Loads are 16 bytes straight from the pool;
// the order in which d meets an instruction's slots is permuted alike in both operands, V's rows of d come
// out permuted and are put right at the end.
#pragma once

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::decode {

inline constexpr unsigned kWarps = 4;
inline constexpr unsigned kThreads = kWarps * kWarp;
inline constexpr unsigned kHeads = 8;  // query heads of a task
inline constexpr unsigned kTileKeys = 16;
inline constexpr unsigned kMaxSplit = 1024;
inline constexpr unsigned kMaxParts = 128;

struct Workspace {
  std::uint32_t* done;  // [rows, units] parts that have ended; zero between launches
  float2* softmax;      // [rows, units, parts, 8]
  float* out;           // [rows, units, parts, 8, D] not yet divided by the sum
};

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const float* q;
  std::size_t q_stride;
  unsigned rows, per_kv, groups, parts;  // groups: of 8 query heads per KV head; parts: room for
  float scale;
  KvLayer kv;
  StagedRows staged;
  Workspace work;
};

struct Task {
  unsigned row, part, kv_head, group, context;
};

template <unsigned kD>
struct Shared {
  std::uint32_t offsets[kMaxSplit];  // of each key of the part, in 16 bytes
  union {
    float out[kWarps][kHeads][kD + 4];  // of the warps
    float2 softmax[kMaxParts][kHeads];  // of the parts
  };
  float2 of_warp[kWarps][kHeads];  // softmax
  bool last;
};

// One warp's share of a task.
template <unsigned kD>
struct Worker {
  static constexpr unsigned kSteps = kD / 32;  // 16-byte loads of a lane per key
  uint4 q[kSteps];                             // fragments of q^T
  float out[kD / 16][4] = {};
  float max[2] = {-INFINITY, -INFINITY};  // of heads 2q and 2q + 1
  float sum[2] = {};

  __device__ void load_queries(const Params& p, const Task& task) {
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned head = task.group * kHeads + g;  // among those of the KV head
    const bool exists = head < p.per_kv;
    const float* from = p.q + task.row * p.q_stride + (task.kv_head * p.per_kv + (exists ? head : 0)) * kD +
                        threadIdx.x % 4 * 8;
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      float v[8];
      load8(v, from + s * 32);
#pragma unroll
      for (float& f : v) f = exists ? f * p.scale : 0.0F;
      q[s] = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
    }
  }

  // Keys g and g + 8 of the tile, or their values.
  struct Tile {
    uint4 low[kSteps], high[kSteps];
    __device__ void load(const std::byte* base, const std::uint32_t* offsets, unsigned last) {
      const unsigned g = threadIdx.x % kWarp / 4;
      const std::byte* a = base + std::size_t{offsets[min(g, last)]} * sizeof(uint4);
      const std::byte* b = base + std::size_t{offsets[min(g + 8, last)]} * sizeof(uint4);
#pragma unroll
      for (unsigned s = 0; s < kSteps; ++s) low[s] = load_streaming(a + s * 64);
#pragma unroll
      for (unsigned s = 0; s < kSteps; ++s) high[s] = load_streaming(b + s * 64);
    }
  };

  __device__ void scores(float (&score)[4], const Tile& k) const {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      mma_16816(score, k.low[s].x, k.high[s].x, k.low[s].y, k.high[s].y, q[s].x, q[s].y);
      mma_16816(score, k.low[s].z, k.high[s].z, k.low[s].w, k.high[s].w, q[s].z, q[s].w);
    }
  }

  // Scores into weights; the state moves to the new maximum.
  __device__ void soften(float (&score)[4]) {
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      float top = fmaxf(score[h], score[h + 2]);
#pragma unroll
      for (unsigned mask = 4; mask < kWarp; mask *= 2)
        top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, mask));
      const float now = fmaxf(max[h], top);
      const float factor = rescale(max[h], now);
      max[h] = now;
      score[h] = exp2f(score[h] - now);
      score[h + 2] = exp2f(score[h + 2] - now);
      sum[h] = sum[h] * factor + score[h] + score[h + 2];
#pragma unroll
      for (auto& o : out) {
        o[h] *= factor;
        o[h + 2] *= factor;
      }
    }
  }

  __device__ void weigh(const float (&score)[4], const Tile& v) {
    const std::uint32_t p0 = transpose_8x8(pack_bf16(score[0], score[1]));
    const std::uint32_t p1 = transpose_8x8(pack_bf16(score[2], score[3]));
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s) {
      mma_16816(out[2 * s], transpose_8x8(v.low[s].x), transpose_8x8(v.low[s].y), transpose_8x8(v.high[s].x),
                transpose_8x8(v.high[s].y), p0, p1);
      mma_16816(out[2 * s + 1], transpose_8x8(v.low[s].z), transpose_8x8(v.low[s].w),
                transpose_8x8(v.high[s].z), transpose_8x8(v.high[s].w), p0, p1);
    }
  }

  __device__ void run(const Params& p, const Task& task, const std::uint32_t* offsets, unsigned keys) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned g = threadIdx.x % kWarp / 4;
    const std::byte* base = p.kv.base + (task.kv_head * kD + threadIdx.x % 4 * 8) * 2;
    unsigned first = warp * kTileKeys;
    if (first >= keys) return;
    Tile k;
    Tile v;
    k.load(base, offsets + first, keys - 1 - first);
    v.load(base + p.kv.v_bytes, offsets + first, keys - 1 - first);
    while (true) {
      const unsigned next = first + kWarps * kTileKeys;
      float score[4] = {};
      scores(score, k);
      if (next < keys) k.load(base, offsets + next, keys - 1 - next);
      if (first + kTileKeys > keys) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
          if (first + g + i / 2 * 8 >= keys) score[i] = -INFINITY;
      }
      soften(score);
      weigh(score, v);
      if (next >= keys) return;
      v.load(base + p.kv.v_bytes, offsets + next, keys - 1 - next);
      first = next;
    }
  }

  __device__ void publish(Shared<kD>& shared) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned q_lane = threadIdx.x % 4;
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned mask = 4; mask < kWarp; mask *= 2) sum[h] += __shfl_xor_sync(kAllLanes, sum[h], mask);
      if (g == 0) shared.of_warp[warp][2 * q_lane + h] = {max[h], sum[h]};
#pragma unroll
      for (unsigned t = 0; t < kD / 16; ++t) {
        const unsigned d = t / 2 * 32 + 8 * (g / 2) + 4 * (t % 2) + g % 2;
        shared.out[warp][2 * q_lane + h][d] = out[t][h];
        shared.out[warp][2 * q_lane + h][d + 2] = out[t][h + 2];
      }
    }
  }
};

}  // namespace lynx::cuda::decode
