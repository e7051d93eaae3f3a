// One warp's share of a task of decode_portable.cu.
//
// Scores are q K^T [16, 8 keys], half of whose rows the 8 query heads fill; outputs are V^T p^T [16 of D, 8
// heads], for which scores are operands as they come out. Loads are 16 bytes straight from the pool, and the
// registers of a load are operands in the order in which they come: d meets an instruction's slots in an
// order of its own, the same in q and k; V's rows of d come out permuted and are put right at the end.
#pragma once

#include "kernels/cuda/decode_portable_task.cuh"
#include "kernels/cuda/decode_softmax.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::decode_portable {

template <unsigned kD>
struct Shared {
  Task task[2];                         // this and the next: here, where they cost no registers
  std::uint32_t offsets[2][kMaxSplit];  // of each key of their parts, in 16 bytes
  union {
    float out[kWarps][kHeads][kD];      // of the warps; see place()
    float2 softmax[kMaxParts][kHeads];  // of the parts
  };
  float2 of_warp[kWarps][kHeads];  // softmax
  uint4 q[kD / 16][kWarp];         // fragments of the queries, for every warp
  bool last;
};

// Where element d of a head's output lies among its kD: the warps' stores meet no bank twice, and an even d
// and the next stay together.
__device__ inline unsigned place(unsigned head, unsigned d) { return d ^ (head / 2 % 4 * 2); }

// The task's queries, scaled, as fragments whose rows 8 to 15 are zero.
template <unsigned kD>
__device__ void stage_queries(Shared<kD>& shared, const Params& p, const Task& task) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned part = threadIdx.x / kWarp;  // 32 of d
  if (part >= kD / 32) return;
  const unsigned head = task.group * kHeads + lane / 4;  // among those of the KV head
  const bool exists = head < p.per_kv;
  float v[8];
  load8(v, p.q + task.row * p.q_stride + (task.kv_head * p.per_kv + (exists ? head : 0)) * kD + part * 32 +
               lane % 4 * 8);
#pragma unroll
  for (float& f : v) f = exists ? f * p.scale : 0.0F;
  shared.q[2 * part][lane] = {pack_bf16(v[0], v[1]), 0, pack_bf16(v[2], v[3]), 0};
  shared.q[2 * part + 1][lane] = {pack_bf16(v[4], v[5]), 0, pack_bf16(v[6], v[7]), 0};
}

// Keys g and g + 8 of a tile of 16: 8 consecutive d at 8 q of every 32.
template <unsigned kD>
struct KeyTile {
  uint4 low[kD / 32], high[kD / 32];
  __device__ void load(const std::byte* base, const std::uint32_t* offsets, unsigned last) {
    const unsigned g = threadIdx.x % kWarp / 4;
    base += threadIdx.x % 4 * sizeof(uint4);
    const std::byte* a = base + std::size_t{offsets[min(g, last)]} * sizeof(uint4);
    const std::byte* b = base + std::size_t{offsets[min(g + 8, last)]} * sizeof(uint4);
#pragma unroll
    for (unsigned s = 0; s < kD / 32; ++s) low[s] = load_streaming(a + s * 64);
#pragma unroll
    for (unsigned s = 0; s < kD / 32; ++s) high[s] = load_streaming(b + s * 64);
  }
};

// Values of keys 2q, 2q + 1, 2q + 8 and 2q + 9: 8 consecutive d at 8 g of every 64. Pairs of keys in one
// register, as fragments of V^T want them, are then one byte permutation away.
template <unsigned kD>
struct ValueTile {
  uint4 of_key[4][kD / 64];
  __device__ void load(const std::byte* base, const std::uint32_t* offsets, unsigned last) {
    base += threadIdx.x % kWarp / 4 * sizeof(uint4);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned key = threadIdx.x % 4 * 2 + i % 2 + i / 2 * 8;
      const std::byte* from = base + std::size_t{offsets[min(key, last)]} * sizeof(uint4);
#pragma unroll
      for (unsigned b = 0; b < kD / 64; ++b) of_key[i][b] = load_streaming(from + b * 128);
    }
  }
};

__device__ inline unsigned first_key() { return warp_index() * kTileKeys; }

// Brings the tile at `first` into L2: for the first one while the kernel before may still run (it writes a
// few of these lines, through L2 like this read), for the others while the tile before is worked on.
template <unsigned kD>
__device__ void prefetch_tile(const Params& p, const Task& task, const std::uint32_t* offsets,
                              unsigned first) {
  constexpr unsigned kLine = 128;
  constexpr unsigned kLines = kD * 2 / kLine;
  const std::byte* base = p.kv.base + task.kv_head * kD * 2;
#pragma unroll
  for (unsigned i = threadIdx.x % kWarp; i < kTileKeys * kLines; i += kWarp) {
    const unsigned key = first + i / kLines;
    if (key >= task.keys) return;
    const std::byte* k = base + std::size_t{offsets[key]} * sizeof(uint4) + i % kLines * kLine;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(k + p.kv.v_bytes));
  }
}

// One warp's share of a task.
template <unsigned kD>
struct Worker {
  HeadSums<kD> sums;

  // Of head g: keys 2q and 2q + 1, then keys 2q + 8 and 2q + 9.
  __device__ static void scores(float (&score)[2][4], const KeyTile<kD>& k,
                                const uint4 (&queries)[kD / 16][kWarp]) {
#pragma unroll
    for (unsigned s = 0; s < kD / 32; ++s) {
      const uint4 q0 = queries[2 * s][threadIdx.x % kWarp];
      mma_16816(score[0], q0.x, q0.y, q0.z, q0.w, k.low[s].x, k.low[s].y);
      mma_16816(score[1], q0.x, q0.y, q0.z, q0.w, k.high[s].x, k.high[s].y);
      const uint4 q1 = queries[2 * s + 1][threadIdx.x % kWarp];
      mma_16816(score[0], q1.x, q1.y, q1.z, q1.w, k.low[s].z, k.low[s].w);
      mma_16816(score[1], q1.x, q1.y, q1.z, q1.w, k.high[s].z, k.high[s].w);
    }
  }

  // Tile t of the sums: rows g and g + 8 are d = 64 (t / 4) + 8 g + 2 (t % 4), and the next d.
  __device__ void weigh(const float (&score)[2][4], const ValueTile<kD>& v) {
    const std::uint32_t p0 = pack_bf16(score[0][0], score[0][1]);
    const std::uint32_t p1 = pack_bf16(score[1][0], score[1][1]);
    const auto add = [&](float(&to)[4], std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
      mma_16816(to, low_halves(a, b), high_halves(a, b), low_halves(c, d), high_halves(c, d), p0, p1);
    };
#pragma unroll
    for (unsigned b = 0; b < kD / 64; ++b) {
      const uint4& k0 = v.of_key[0][b];
      const uint4& k1 = v.of_key[1][b];
      const uint4& k8 = v.of_key[2][b];
      const uint4& k9 = v.of_key[3][b];
      add(sums.out[4 * b], k0.x, k1.x, k8.x, k9.x);
      add(sums.out[4 * b + 1], k0.y, k1.y, k8.y, k9.y);
      add(sums.out[4 * b + 2], k0.z, k1.z, k8.z, k9.z);
      add(sums.out[4 * b + 3], k0.w, k1.w, k8.w, k9.w);
    }
  }

  __device__ void run(const Params& p, const Task& task, const std::uint32_t* offsets,
                      const uint4 (&queries)[kD / 16][kWarp]) {
    const std::byte* base = p.kv.base + task.kv_head * kD * 2;
    sums.clear();
    for (unsigned first = first_key(); first < task.keys; first += kWarps * kTileKeys) {
      const unsigned last = task.keys - 1 - first;
      KeyTile<kD> k;
      ValueTile<kD> v;
      k.load(base, offsets + first, last);
      v.load(base + p.kv.v_bytes, offsets + first, last);
      prefetch_tile<kD>(p, task, offsets, first + kWarps * kTileKeys);
      float score[2][4] = {};
      scores(score, k, queries);
      sums.soften(score, last + 1);
      weigh(score, v);
    }
  }

  __device__ void publish(Shared<kD>& shared) {
    const unsigned warp = warp_index();
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned q = threadIdx.x % 4;
    sums.add_lanes();
    if (q == 0) shared.of_warp[warp][g] = {sums.max, sums.sum};
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const unsigned head = 2 * q + h;
#pragma unroll
      for (unsigned t = 0; t < kD / 16; ++t) {
        const unsigned d = t / 4 * 64 + 8 * g + 2 * (t % 4);
        *reinterpret_cast<float2*>(&shared.out[warp][head][place(head, d)]) = {sums.out[t][h],
                                                                               sums.out[t][h + 2]};
      }
    }
  }
};

}  // namespace lynx::cuda::decode_portable
