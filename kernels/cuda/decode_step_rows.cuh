// What decode attention makes of the step's own rows: queries and the newest key, normed and turned, and
// the newest key and value into the pool.
#pragma once

#include "kernels/cuda/decode_stream.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda::decode {

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline float4 times(float4 a, float4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ inline float4 times(float4 a, float f) { return {a.x * f, a.y * f, a.z * f, a.w * f}; }
__device__ inline float squares(float4 a) { return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w; }
__device__ inline uint2 pack4(float4 a) { return {pack_bf16(a.x, a.y), pack_bf16(a.z, a.w)}; }

// RMS norm of a head over `lanes` neighbouring lanes that hold it, then the rotary embedding. Element i of
// the first half of the head and element i of the second turn together; at(i): where low[i] lies in its half.
template <unsigned kQuads, typename At>
__device__ void norm_and_turn(float4 (&low)[kQuads], float4 (&high)[kQuads], const float* weight,
                              const float* rope, float eps, unsigned half, unsigned lanes, const At& at) {
  if (weight != nullptr) {
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < kQuads; ++i) sum += squares(low[i]) + squares(high[i]);
    for (unsigned mask = 1; mask < lanes; mask *= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
    const float scale = rsqrtf(sum / static_cast<float>(2 * half) + eps);
#pragma unroll
    for (unsigned i = 0; i < kQuads; ++i) {
      low[i] = times(low[i], times(load4(weight + at(i)), scale));
      high[i] = times(high[i], times(load4(weight + half + at(i)), scale));
    }
  }
#pragma unroll
  for (unsigned i = 0; i < kQuads; ++i) {
    const float4 cos = load4(rope + at(i));
    const float4 sin = load4(rope + half + at(i));
    const float4 l = low[i];
    const float4 h = high[i];
    low[i] = {l.x * cos.x - h.x * sin.x, l.y * cos.y - h.y * sin.y, l.z * cos.z - h.z * sin.z,
              l.w * cos.w - h.w * sin.w};
    high[i] = {h.x * cos.x + l.x * sin.x, h.y * cos.y + l.y * sin.y, h.z * cos.z + l.z * sin.z,
               h.w * cos.w + l.w * sin.w};
  }
}

// By what a block's heads are normed and turned: in shared memory, so that it is there when the rows are.
template <unsigned kD>
struct HeadTables {
  static constexpr unsigned kRopeRows = 2;  // of the block's first rows; others are read where they lie
  alignas(16) float q_norm[kD];
  alignas(16) float k_norm[kD];
  alignas(16) float rope[kRopeRows][kD];
  unsigned first_row;

  // By the threads that compute, before they wait for anything. row: of the block's first task.
  __device__ void fill(const Params& p, unsigned row, const Contexts& contexts) {
    if (threadIdx.x == 0) first_row = row;
    if (p.q_weight != nullptr && threadIdx.x < kD) {
      q_norm[threadIdx.x] = p.q_weight[threadIdx.x];
      k_norm[threadIdx.x] = p.k_weight[threadIdx.x];
    }
    if (row >= contexts.live) return;
    const unsigned of[kRopeRows] = {contexts[row], contexts[min(row + 1, contexts.live - 1)]};
#pragma unroll
    for (unsigned i = 0; i < kRopeRows; ++i)
      if (threadIdx.x / kD == i)
        rope[i][threadIdx.x % kD] = p.rope[(of[i] - 1) * p.rope_stride + threadIdx.x % kD];
  }
  __device__ const float* rope_of(const Params& p, const Task& task) const {
    const unsigned at = task.row - first_row;
    return at < kRopeRows ? rope[at] : p.rope + (task.context - 1) * p.rope_stride;
  }
  __device__ const float* q_weight(const Params& p) const { return p.q_weight == nullptr ? nullptr : q_norm; }
  __device__ const float* k_weight(const Params& p) const { return p.k_weight == nullptr ? nullptr : k_norm; }
};

// The queries of one KV head's heads [8 group, 8 group + 8), scaled, as the upper half of the operands of
// scores: lane 4 g + q holds d = 32 s + 8 q + 0..7 of head g, as it will hold those of the keys. Heads that
// do not exist are zero.
template <unsigned kD>
__device__ void load_queries(uint2 (&queries)[kD / 16], const Params& p, const HeadTables<kD>& tables,
                             const Task& task, unsigned kv_head) {
  constexpr unsigned kQuads = kD / 32;
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned head = task.group * kHeads + lane / 4;
  const bool exists = head < p.per_kv;
  const float* from = p.q + task.row * p.q_stride + (kv_head * p.per_kv + (exists ? head : 0)) * kD;
  const auto at = [&](unsigned i) { return i / 2 * 32 + lane % 4 * 8 + i % 2 * 4; };
  float4 low[kQuads], high[kQuads];
#pragma unroll
  for (unsigned i = 0; i < kQuads; ++i) {
    low[i] = load4(from + at(i));
    high[i] = load4(from + kD / 2 + at(i));
  }
  norm_and_turn(low, high, tables.q_weight(p), tables.rope_of(p, task), p.eps, kD / 2, 4, at);
  const float scale = exists ? p.scale : 0.0F;
#pragma unroll
  for (unsigned i = 0; i < kQuads; ++i) {
    queries[i] = pack4(times(low[i], scale));
    queries[kQuads + i] = pack4(times(high[i], scale));
  }
}

// The newest token's K and V of one head. One warp; a lane has four elements of each half, and so have
// others.
template <unsigned kD>
class NewestToken {
 public:
  __device__ void load(const Params& p, const Task& task, unsigned kv_head) {
    sequence_ = sequence_of(p.staged, task.row);
    const float* k = p.k + task.row * p.k_stride + kv_head * kD + first();
    const float* v = p.v + task.row * p.v_stride + kv_head * kD + first();
    k_low_[0] = load4(k);
    k_high_[0] = load4(k + kHalf);
    v_low_ = load4(v);
    v_high_ = load4(v + kHalf);
  }
  // After the queries are asked for: asks where the token lies, which nobody waits for then.
  __device__ void locate(const Params& p, const Task& task) {
    block_ = table_of_sequence(p.staged, sequence_)[p.block_tokens(task.context - 1)];
  }
  // Into their rows of shared memory.
  __device__ void store(const Params& p, const HeadTables<kD>& tables, const Task& task, unsigned kv_head,
                        std::byte* k_row, std::byte* v_row) {
    norm_and_turn(k_low_, k_high_, tables.k_weight(p), tables.rope_of(p, task), p.eps, kHalf, kHolders,
                  [](unsigned) { return first(); });
    if (threadIdx.x % kWarp >= kHolders) return;
    store_halves(k_row, k_low_[0], k_high_[0]);
    store_halves(v_row, v_low_, v_high_);
  }
  // And into the pool.
  __device__ void store_in_pool(const Params& p, const Task& task, unsigned kv_head) const {
    if (task.group != 0 || threadIdx.x % kWarp >= kHolders) return;
    std::byte* pool = p.kv.base + token_place(p, block_, task.context - 1) * sizeof(uint4) + kv_head * kD * 2;
    store_halves(pool, k_low_[0], k_high_[0]);
    store_halves(pool + p.kv.v_bytes, v_low_, v_high_);
  }

 private:
  static constexpr unsigned kHalf = kD / 2;
  static constexpr unsigned kHolders = kHalf / 4;

  __device__ static unsigned first() { return threadIdx.x % kHolders * 4; }
  __device__ static void store_halves(std::byte* row, float4 low, float4 high) {
    reinterpret_cast<uint2*>(row)[first() / 4] = pack4(low);
    reinterpret_cast<uint2*>(row)[(kHalf + first()) / 4] = pack4(high);
  }

  float4 k_low_[1], k_high_[1], v_low_, v_high_;
  std::uint32_t sequence_;
  BlockId block_;
};

}  // namespace lynx::cuda::decode
