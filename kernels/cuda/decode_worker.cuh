// One warp's share of a task of decode attention: one KV head with 8 of its query heads.
//
// Scores are q K^T [16, 8 keys], half of whose rows the 8 query heads fill; outputs are V^T p^T [16 of D, 8
// heads], for which scores are operands as they come out. The registers of a 16-byte load are operands in the
// order in which they come: d meets an instruction's slots in an order of its own, the same in q and k, and
// V's rows of d come out in an order of their own. Keys in shared memory are multiples of 128 bytes apart:
// which lane takes which of two loads first is chosen such that banks are met once (K) or twice (V).
#pragma once

#include "kernels/cuda/decode_softmax.cuh"
#include "kernels/cuda/decode_step_rows.cuh"

namespace lynx::cuda::decode {

template <unsigned kD>
struct Worker {
  uint2 queries[kD / 16];
  HeadSums<kD> sums;  // tile t: rows g and g + 8 are d = g D / 8 + 2 t and the next
  NewestToken<kD> newest;

  // new_row: the queries are not those of the task before.
  __device__ void begin(const Params& p, const HeadTables<kD>& tables, const Task& task, unsigned kv_head,
                        bool new_row) {
    const bool has_newest = task.first + task.keys == task.context;
    if (has_newest) newest.load(p, task, kv_head);
    if (new_row) load_queries<kD>(queries, p, tables, task, kv_head);
    if (has_newest) newest.locate(p, task);
    sums.clear();
  }

  // Two 16-byte loads, the second one first if `swap`.
  __device__ static void load_two(uint4& a, uint4& b, const std::byte* at, unsigned apart, bool swap) {
    const uint4 first = *reinterpret_cast<const uint4*>(at + (swap ? apart : 0));
    const uint4 second = *reinterpret_cast<const uint4*>(at + (swap ? 0 : apart));
    a = swap ? second : first;
    b = swap ? first : second;
  }

  // Of head g: keys 2q and 2q + 1, then keys 2q + 8 and 2q + 9. Two chains each, for speed.
  //
  // Of two 32 d, odd keys load the second first. So an instruction meets them with 32 d of even keys and the
  // other 32 of odd ones, and its first eight rows are the queries' d for the former, its last eight those
  // for the latter.
  __device__ void scores(float (&score)[2][2], const std::byte* k_rows, unsigned row_bytes) const {
    const unsigned g = threadIdx.x % kWarp / 4;
    const std::byte* at = k_rows + g * row_bytes + threadIdx.x % 4 * sizeof(uint4);
    const std::byte* from[2] = {at + g % 2 * 64, at + (1 - g % 2) * 64};
    float sum[2][2][4] = {};  // [chain][keys]
#pragma unroll
    for (unsigned s = 0; s < kD / 32; s += 2) {
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        const uint4 low = *reinterpret_cast<const uint4*>(from[i] + s * 64);  // of keys g and g + 8
        const uint4 high = *reinterpret_cast<const uint4*>(from[i] + 8 * row_bytes + s * 64);
        const uint2* even = queries + 2 * (s + i);
        const uint2* odd = queries + 2 * (s + 1 - i);
        mma_16816(sum[i][0], even[0].x, odd[0].x, even[0].y, odd[0].y, low.x, low.y);
        mma_16816(sum[i][1], even[0].x, odd[0].x, even[0].y, odd[0].y, high.x, high.y);
        mma_16816(sum[i][0], even[1].x, odd[1].x, even[1].y, odd[1].y, low.z, low.w);
        mma_16816(sum[i][1], even[1].x, odd[1].x, even[1].y, odd[1].y, high.z, high.w);
      }
    }
#pragma unroll
    for (unsigned keys = 0; keys < 2; ++keys) {
      score[keys][0] = sum[0][keys][0] + sum[1][keys][0];
      score[keys][1] = sum[0][keys][3] + sum[1][keys][3];
    }
  }

  // Values of keys 2q, 2q + 1, 2q + 8 and 2q + 9; pairs of keys in one register are a byte permutation away.
  __device__ void weigh(const float (&score)[2][2], const std::byte* v_rows, unsigned row_bytes) {
    constexpr unsigned kVectors = kD / 64;  // of a key and lane
    const unsigned q = threadIdx.x % 4;
    const std::uint32_t p0 = pack_bf16(score[0][0], score[0][1]);
    const std::uint32_t p1 = pack_bf16(score[1][0], score[1][1]);
    const std::byte* at = v_rows + 2 * q * row_bytes + threadIdx.x % kWarp / 4 * kVectors * sizeof(uint4);
    uint4 v[4][kVectors];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::byte* row = at + (i % 2 + i / 2 * 8) * row_bytes;
      if constexpr (kVectors == 2)
        load_two(v[i][0], v[i][1], row, sizeof(uint4), q % 2 == 1);
      else
        v[i][0] = *reinterpret_cast<const uint4*>(row);
    }
    const auto add = [&](float(&to)[4], std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
      mma_16816(to, low_halves(a, b), high_halves(a, b), low_halves(c, d), high_halves(c, d), p0, p1);
    };
#pragma unroll
    for (unsigned b = 0; b < kVectors; ++b) {
      add(sums.out[4 * b], v[0][b].x, v[1][b].x, v[2][b].x, v[3][b].x);
      add(sums.out[4 * b + 1], v[0][b].y, v[1][b].y, v[2][b].y, v[3][b].y);
      add(sums.out[4 * b + 2], v[0][b].z, v[1][b].z, v[2][b].z, v[3][b].z);
      add(sums.out[4 * b + 3], v[0][b].w, v[1][b].w, v[2][b].w, v[3][b].w);
    }
  }

  // Rows past the last key hold anything, and a weight of zero does not undo a NaN.
  __device__ static void clear_values(std::byte* v_rows, unsigned row_bytes, unsigned keys) {
    constexpr unsigned kLanesOfRow = kD * 2 / sizeof(uint4);
    const unsigned lane = threadIdx.x % kWarp;
    for (unsigned row = keys + lane / kLanesOfRow; row < kTileKeys; row += kWarp / kLanesOfRow)
      reinterpret_cast<uint4*>(v_rows + row * row_bytes)[lane % kLanesOfRow] = {};
  }

  // Keys [first, first + keys) of the task. k_rows, v_rows: this head's part of the stage.
  __device__ void take(const Params& p, const HeadTables<kD>& tables, const Task& task, unsigned first,
                       unsigned keys, unsigned kv_head, std::byte* k_rows, std::byte* v_rows) {
    if (task.first + first + keys ==
        task.context) {  // the row's own token is among them: not in the pool yet
      const unsigned row = (keys - 1) * p.row_bytes;
      newest.store(p, tables, task, kv_head, k_rows + row, v_rows + row);
      clear_values(v_rows, p.row_bytes, keys);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the stage is copied to again
      __syncwarp();
      newest.store_in_pool(p, task, kv_head);  // past the fence, which would wait for it
    }
    float score[2][2];
    scores(score, k_rows, p.row_bytes);
    sums.soften(score, keys);
    weigh(score, v_rows, p.row_bytes);
  }

  // The part's results, for merge_rows.
  __device__ void publish(const Params& p, const Task& task, unsigned kv_head) {
    const unsigned lane = threadIdx.x % kWarp;
    sums.add_lanes();
    const std::size_t unit = (std::size_t{task.row} * p.kv.kv_heads + kv_head) * p.groups + task.group;
    const std::size_t slot = unit * p.parts + task.part;
    if (lane % 4 == 0) p.work.softmax[slot * kHeads + lane / 4] = {sums.max, sums.sum};
    uint2* to = p.work.out + slot * (kD / 16) * kWarp + lane;
#pragma unroll
    for (unsigned t = 0; t < kD / 16; ++t)
      to[t * kWarp] = {pack_bf16(sums.out[t][0], sums.out[t][1]), pack_bf16(sums.out[t][2], sums.out[t][3])};
  }
};

}  // namespace lynx::cuda::decode
