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

inline constexpr unsigned kWarps = 8;
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
  unsigned first, keys;  // of the part
};

template <unsigned kD>
struct Shared {
  std::uint32_t offsets[2][kMaxSplit];  // of each key of this and the next task's part, in 16 bytes
  union {
    float out[kWarps][kHeads][kD];      // of the warps; see place()
    float2 softmax[kMaxParts][kHeads];  // of the parts
  };
  float2 of_warp[kWarps][kHeads];  // softmax
  uint4 q[kD / 32][kWarp];         // fragments of q^T, for every warp
  bool last;
};

// Where element d of a head's output lies among its kD: the warps' stores meet no bank twice, and an even d
// and the next stay together.
__device__ inline unsigned place(unsigned head, unsigned d) { return d ^ (head / 2 % 4 * 2); }

// The task's queries, scaled, as fragments of q^T.
template <unsigned kD>
__device__ void stage_queries(Shared<kD>& shared, const Params& p, const Task& task) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned step = threadIdx.x / kWarp;
  if (step >= kD / 32) return;
  const unsigned head = task.group * kHeads + lane / 4;  // among those of the KV head
  const bool exists = head < p.per_kv;
  float v[8];
  load8(v, p.q + task.row * p.q_stride + (task.kv_head * p.per_kv + (exists ? head : 0)) * kD + step * 32 +
               lane % 4 * 8);
#pragma unroll
  for (float& f : v) f = exists ? f * p.scale : 0.0F;
  shared.q[step][lane] = {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
                          pack_bf16(v[6], v[7])};
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

// One warp's share of a task.
template <unsigned kD>
struct Worker {
  KeyTile<kD> k;  // on their way: the tile after the one being worked on, or the next task's first
  ValueTile<kD> v;
  float out[kD / 16][4];
  float max[2];  // of heads 2q and 2q + 1
  float sum[2];

  __device__ void clear() {
#pragma unroll
    for (auto& o : out) o[0] = o[1] = o[2] = o[3] = 0;
    max[0] = max[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  __device__ static unsigned first_key() { return threadIdx.x / kWarp * kTileKeys; }

  __device__ static const std::byte* base_of(const Params& p, const Task& task) {
    return p.kv.base + task.kv_head * kD * 2;
  }

  // The first tile's loads.
  __device__ void start(const Params& p, const Task& task, const std::uint32_t* offsets) {
    const unsigned first = first_key();
    if (first >= task.keys) return;
    const std::byte* base = base_of(p, task);
    k.load(base, offsets + first, task.keys - 1 - first);
    v.load(base + p.kv.v_bytes, offsets + first, task.keys - 1 - first);
  }

  __device__ void scores(float (&score)[4], const uint4 (&queries)[kD / 32][kWarp]) const {
    float other[4] = {};  // two chains of instructions instead of one
#pragma unroll
    for (unsigned s = 0; s < kD / 32; ++s) {
      const uint4 q = queries[s][threadIdx.x % kWarp];
      mma_16816(score, k.low[s].x, k.high[s].x, k.low[s].y, k.high[s].y, q.x, q.y);
      mma_16816(other, k.low[s].z, k.high[s].z, k.low[s].w, k.high[s].w, q.z, q.w);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) score[i] += other[i];
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

  __device__ static std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
    return __byte_perm(a, b, 0x5410);
  }
  __device__ static std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
    return __byte_perm(a, b, 0x7632);
  }

  // Tile t of out: rows g and g + 8 are d = 64 (t / 4) + 8 g + 2 (t % 4), and the next d.
  __device__ void weigh(const float (&score)[4]) {
    const std::uint32_t p0 = transpose_8x8(pack_bf16(score[0], score[1]));
    const std::uint32_t p1 = transpose_8x8(pack_bf16(score[2], score[3]));
    const auto add = [&](float(&to)[4], std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
      mma_16816(to, low_halves(a, b), high_halves(a, b), low_halves(c, d), high_halves(c, d), p0, p1);
    };
#pragma unroll
    for (unsigned b = 0; b < kD / 64; ++b) {
      const uint4& k0 = v.of_key[0][b];
      const uint4& k1 = v.of_key[1][b];
      const uint4& k8 = v.of_key[2][b];
      const uint4& k9 = v.of_key[3][b];
      add(out[4 * b], k0.x, k1.x, k8.x, k9.x);
      add(out[4 * b + 1], k0.y, k1.y, k8.y, k9.y);
      add(out[4 * b + 2], k0.z, k1.z, k8.z, k9.z);
      add(out[4 * b + 3], k0.w, k1.w, k8.w, k9.w);
    }
  }

  // Through the keys that start() began with.
  __device__ void run(const Params& p, const Task& task, const std::uint32_t* offsets,
                      const uint4 (&queries)[kD / 32][kWarp]) {
    const unsigned g = threadIdx.x % kWarp / 4;
    const std::byte* base = base_of(p, task);
    for (unsigned first = first_key(); first < task.keys;) {
      const unsigned next = first + kWarps * kTileKeys;
      const unsigned last = task.keys - 1 - next;
      float score[4] = {};
      scores(score, queries);
      if (next < task.keys) k.load(base, offsets + next, last);
      if (first + kTileKeys > task.keys) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
          if (first + g + i / 2 * 8 >= task.keys) score[i] = -INFINITY;
      }
      soften(score);
      weigh(score);
      if (next < task.keys) v.load(base + p.kv.v_bytes, offsets + next, last);
      first = next;
    }
  }

  __device__ void publish(Shared<kD>& shared) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned g = threadIdx.x % kWarp / 4;
    const unsigned head = threadIdx.x % 4 * 2;
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
#pragma unroll
      for (unsigned mask = 4; mask < kWarp; mask *= 2) sum[h] += __shfl_xor_sync(kAllLanes, sum[h], mask);
      if (g == 0) shared.of_warp[warp][head + h] = {max[h], sum[h]};
#pragma unroll
      for (unsigned t = 0; t < kD / 16; ++t) {
        const unsigned d = t / 4 * 64 + 8 * g + 2 * (t % 4);
        *reinterpret_cast<float2*>(&shared.out[warp][head + h][place(head, d)]) = {out[t][h], out[t][h + 2]};
      }
    }
  }
};

}  // namespace lynx::cuda::decode
