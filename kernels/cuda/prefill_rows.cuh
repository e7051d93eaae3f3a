// The pieces of prefill_attention.cu: a tile of keys and values in shared memory, and one warp's 16 rows.
#pragma once

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/shared_memory.cuh"

namespace lynx::cuda::prefill {

inline constexpr unsigned kWarps = 8;
inline constexpr unsigned kThreads = kWarps * kWarp;
inline constexpr unsigned kRows = kWarps * 16;
inline constexpr unsigned kKeys = 64;  // of a tile
inline constexpr unsigned kStages = 2;

template <unsigned kD>
struct Stage {
  uint4 k[kKeys][kD / 8];
  uint4 v[kKeys][kD / 8];
};

template <unsigned kD>
__device__ unsigned swizzled(unsigned key, unsigned piece) {
  return key * (kD / 8) + (piece ^ (key % 8));
}

struct Fragments {  // two of the [16, 8] operand
  std::uint32_t r[4];
};

template <bool kTransposed>
__device__ Fragments load_fragments(const uint4* from) {
  const std::uint32_t address = shared_address(from);
  Fragments f;
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
  }
  return f;
}

// A warp's 16 rows; this lane's are g and g + 8 (h = 0, 1).
template <unsigned kD>
struct RowState {
  std::uint32_t q[kD / 16][4];
  float out[kD / 8][4] = {};
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // this lane's share

  __device__ void load_queries(const float* const (&from)[2], float scale) {
    const unsigned q_lane = threadIdx.x % 4;
#pragma unroll
    for (unsigned s = 0; s < kD / 16; ++s) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const float2 v =
            from[i % 2] == nullptr
                ? float2{0, 0}
                : *reinterpret_cast<const float2*>(from[i % 2] + s * 16 + i / 2 * 8 + 2 * q_lane);
        q[s][i] = pack_bf16(v.x * scale, v.y * scale);
      }
    }
  }

  __device__ void scores(float (&score)[kKeys / 8][4], const Stage<kD>& stage) const {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (unsigned n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (unsigned s = 0; s < kD / 32; ++s) {
        const Fragments k =
            load_fragments<false>(&stage.k[0][0] + swizzled<kD>(n * 8 + lane % 8, s * 4 + lane / 8));
        mma_16816(score[n], q[2 * s][0], q[2 * s][1], q[2 * s][2], q[2 * s][3], k.r[0], k.r[1]);
        mma_16816(score[n], q[2 * s + 1][0], q[2 * s + 1][1], q[2 * s + 1][2], q[2 * s + 1][3], k.r[2],
                  k.r[3]);
      }
    }
  }

  // visible[h]: keys of this tile that the row sees, if it is fewer than all.
  __device__ void soften(float (&score)[kKeys / 8][4], const int (&visible)[2], bool masked) {
    const int q_lane = static_cast<int>(threadIdx.x % 4);
    if (masked) {
#pragma unroll
      for (unsigned n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
          if (static_cast<int>(n * 8 + i % 2) + 2 * q_lane >= visible[i / 2]) score[n][i] = -INFINITY;
    }
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      float top = max[h];
#pragma unroll
      for (unsigned n = 0; n < kKeys / 8; ++n) top = fmaxf(top, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      const float factor = rescale(max[h], top);
      max[h] = top;
      sum[h] *= factor;
#pragma unroll
      for (unsigned n = 0; n < kKeys / 8; ++n) {
        score[n][2 * h] = exp2f(score[n][2 * h] - top);
        score[n][2 * h + 1] = exp2f(score[n][2 * h + 1] - top);
        sum[h] += score[n][2 * h] + score[n][2 * h + 1];
      }
#pragma unroll
      for (auto& o : out) {
        o[2 * h] *= factor;
        o[2 * h + 1] *= factor;
      }
    }
  }

  __device__ void weigh(const float (&score)[kKeys / 8][4], const Stage<kD>& stage) {
    const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (unsigned s = 0; s < kKeys / 16; ++s) {
      const std::uint32_t a0 = pack_bf16(score[2 * s][0], score[2 * s][1]);
      const std::uint32_t a1 = pack_bf16(score[2 * s][2], score[2 * s][3]);
      const std::uint32_t a2 = pack_bf16(score[2 * s + 1][0], score[2 * s + 1][1]);
      const std::uint32_t a3 = pack_bf16(score[2 * s + 1][2], score[2 * s + 1][3]);
#pragma unroll
      for (unsigned n = 0; n < kD / 8; n += 2) {
        const Fragments v =
            load_fragments<true>(&stage.v[0][0] + swizzled<kD>(s * 16 + lane % 16, n + lane / 16));
        mma_16816(out[n], a0, a1, a2, a3, v.r[0], v.r[1]);
        mma_16816(out[n + 1], a0, a1, a2, a3, v.r[2], v.r[3]);
      }
    }
  }
};

}  // namespace lynx::cuda::prefill
