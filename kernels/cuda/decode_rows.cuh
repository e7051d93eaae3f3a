// Decode attention of a block: the parts of its tasks, and the merging of a step's parts into rows.
#pragma once

#include "kernels/cuda/decode_worker.cuh"

namespace lynx::cuda::decode {

// The block's tasks, from the ring into the workspace, by the warps that compute. A warp of each KV head of a
// slice makes a team; the teams take tasks in turn.
template <unsigned kD>
__device__ void attend_parts(const Params& p, const HeadTables<kD>& tables, TaskWalk walk, const Ring& ring,
                             StageCursor& at) {
  const unsigned teams = kWarps >> p.slice_bits;
  const unsigned team = warp_index() >> p.slice_bits;
  const unsigned head = warp_index() & ((1U << p.slice_bits) - 1);
  Worker<kD> worker;
  unsigned row = ~0U;  // whose queries the worker holds, and of which unit
  unsigned slice = 0;
  unsigned group = 0;
#pragma unroll 1
  for (unsigned turn = 0; walk.more(); walk.advance(), ++turn) {
    const Task task = walk.task();
    const bool ours = (turn & (teams - 1)) == team;
    const unsigned kv_head = (task.slice << p.slice_bits) + head;
    if (ours) {
      worker.begin(p, tables, task, kv_head, task.row != row || task.slice != slice || task.group != group);
      row = task.row;
      slice = task.slice;
      group = task.group;
    }
#pragma unroll 1
    for (unsigned first = 0; first < task.keys; first += kTileKeys) {
      at.wait_full(ring);
      std::byte* k = ring.stage(at.at) + head * kD * 2;
      if (ours)
        worker.take(p, tables, task, first, min(kTileKeys, task.keys - first), kv_head, k,
                    k + kTileKeys * p.row_bytes);
      at.pass(ring);
    }
    if (ours) worker.publish(p, task, kv_head);
  }
}

// The parts of 16 elements of 8 heads, in their order, a few at once. Past L1: other blocks wrote them.
template <unsigned kD>
struct Merged {
  static constexpr unsigned kAtOnce = 16;
  float4 out = {};  // of heads 2q and 2q + 1, two elements each: as Worker::out
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};

  __device__ void add(const float4* states, const uint2* outs, unsigned parts) {
#pragma unroll 1
    for (unsigned first = 0; first < parts; first += kAtOnce) {
      float4 state[kAtOnce];  // maximum and sum, of head 2q, then 2q + 1
      uint2 v[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const unsigned part = first + i;
        state[i] = part < parts ? __ldcg(states + part * (kHeads / 2)) : float4{-INFINITY, 0, -INFINITY, 0};
        v[i] = part < parts ? __ldcg(outs + part * (kD / 16) * kWarp) : uint2{};
      }
      float now[2] = {max[0], max[1]};
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        now[0] = fmaxf(now[0], state[i].x);
        now[1] = fmaxf(now[1], state[i].z);
      }
      const float old[2] = {rescale(max[0], now[0]), rescale(max[1], now[1])};
      out = {out.x * old[0], out.y * old[1], out.z * old[0], out.w * old[1]};
      sum[0] *= old[0];
      sum[1] *= old[1];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const float even = rescale(state[i].x, now[0]);
        const float odd = rescale(state[i].z, now[1]);
        sum[0] += state[i].y * even;
        sum[1] += state[i].w * odd;
        out = {out.x + low_bf16(v[i].x) * even, out.y + high_bf16(v[i].x) * odd,
               out.z + low_bf16(v[i].y) * even, out.w + high_bf16(v[i].y) * odd};
      }
      max[0] = now[0];
      max[1] = now[1];
    }
  }
};

// What a warp of the grid merges: 16 elements of 8 heads of a row, tile t of Worker::out; then others.
template <unsigned kTiles>
class MergeWalk {
 public:
  __device__ MergeWalk(const Params& p, const Contexts& contexts, unsigned warps_of_block)
      : p_(p),
        contexts_(contexts),
        items_(contexts.live * p.units_of_row.by() * kTiles),
        stride_(gridDim.x * warps_of_block),
        item_(warp_index() * gridDim.x + blockIdx.x) {
    locate();
  }
  __device__ bool more() const { return item_ < items_; }
  __device__ void advance() {
    item_ += stride_;
    locate();
  }
  __device__ unsigned tile() const { return item_ % kTiles; }
  __device__ unsigned unit() const { return item_ / kTiles; }  // (row, KV head, group)
  __device__ unsigned row() const { return row_; }
  __device__ unsigned parts() const { return parts_; }  // of the row

 private:
  __device__ void locate() {
    row_ = p_.units_of_row(unit());
    parts_ = more() ? parts_of(contexts_[row_]) : 0;
  }

  const Params& p_;
  Contexts contexts_;
  unsigned items_, stride_, item_, row_, parts_;
};

template <unsigned kD, typename Out>
__device__ void merge_rows(const Params& p, MergeWalk<kD / 16> walk) {
  constexpr unsigned kTiles = kD / 16;
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll 1
  for (; walk.more(); walk.advance()) {
    const unsigned slot = walk.unit() * p.parts;
    Merged<kD> m;
    m.add(reinterpret_cast<const float4*>(p.work.softmax + std::size_t{slot} * kHeads) + lane % 4,
          p.work.out + (std::size_t{slot} * kTiles + walk.tile()) * kWarp + lane, walk.parts());
    const unsigned of_row = walk.unit() - walk.row() * p.units_of_row.by();
    const unsigned kv_head = p.groups_of_head(of_row);
    const unsigned first_head = (of_row - kv_head * p.groups) * kHeads + lane % 4 * 2;
    const float scale[2] = {1 / m.sum[0], 1 / m.sum[1]};
    Out* to = reinterpret_cast<Out*>(p.out) + walk.row() * p.out_stride +
              (kv_head * p.per_kv + first_head) * kD + lane / 4 * (kD / 8) + 2 * walk.tile();
    if (first_head < p.per_kv) store2(to, m.out.x * scale[0], m.out.z * scale[0]);
    if (first_head + 1 < p.per_kv) store2(to + kD, m.out.y * scale[1], m.out.w * scale[1]);
  }
}

}  // namespace lynx::cuda::decode
