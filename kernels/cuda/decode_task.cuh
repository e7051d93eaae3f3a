// What a launch of decode_attention.cu or attention_block.cu gets of attention, and how it is cut into tasks.
#pragma once

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/divider.h"

namespace lynx::cuda::decode {

inline constexpr unsigned kWarps = 8;          // that compute
inline constexpr unsigned kProducer = kWarps;  // the warp that copies
inline constexpr unsigned kComputeThreads = kWarps * kWarp;
inline constexpr unsigned kThreads = kComputeThreads + kWarp;
inline constexpr unsigned kHeads = 8;  // query heads of a task, of each of its KV heads
inline constexpr unsigned kTileKeys = 16;
inline constexpr unsigned kSliceElements = 512;    // of a token's K that a task takes, at most; whole heads
inline constexpr unsigned kMaxContext = 1U << 20;  // Divider is exact there for blocks of up to 4,095 tokens

// Keys of a part, as a power of two. A step of few rows has parts enough to fill the device; larger ones cost
// less merging.
__host__ __device__ constexpr unsigned split_bits(unsigned context) {
  return context <= 2048 ? 6 : context <= 4096 ? 8 : context <= 16384 ? 9 : 10;
}
__host__ __device__ constexpr unsigned parts_of(unsigned context) {
  const unsigned bits = split_bits(context);
  return (context + (1U << bits) - 1) >> bits;
}

struct Workspace {  // a unit is (row, KV head, group of query heads)
  float2* softmax;  // [units, parts, 8] maximum and sum
  uint2* out;       // [units, parts, D / 16, 32 lanes] four bf16 each, not yet divided by the sum
};

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const float *q, *k, *v;  // of the step's rows
  std::size_t q_stride, k_stride, v_stride;
  const float *q_weight, *k_weight, *rope;  // weights: null if heads are not normed
  std::size_t rope_stride;
  float eps;
  float scale;
  unsigned rows, per_kv, groups, parts;  // groups: of 8 query heads per KV head; parts: room for
  unsigned slice_bits, slices;           // KV heads of a task, as a power of two; slices of all KV heads
  unsigned row_bytes;                    // from token to token in shared memory
  KvLayer kv;
  Divider block_tokens, units_of_row, groups_of_head;
  StagedRows staged;
  Workspace work;
};

// Bytes from the layer's base to the K of a token that lies in that block of the pool, in 16 bytes.
__device__ inline std::uint32_t token_place(const Params& p, BlockId block, unsigned position) {
  const unsigned slot = position - p.block_tokens(position) * p.kv.block_tokens;
  const std::size_t offset = block * p.kv.block_bytes + std::size_t{slot * p.kv.token_bytes};
  return static_cast<std::uint32_t>(offset / sizeof(uint4));
}
__device__ inline std::uint32_t token_place(const Params& p, const BlockId* table, unsigned position) {
  return token_place(p, table[p.block_tokens(position)], position);
}

struct Task {
  unsigned row, part, slice, group;
  unsigned context;      // the row's, its own token included
  unsigned first, keys;  // of the part
};

__device__ inline unsigned tiles_of(unsigned keys) { return (keys + kTileKeys - 1) / kTileKeys; }

// How long the sequences of a step's rows are, its own tokens included: lane l of a warp holds rows l and l
// + 32. At most 64 rows.
struct Contexts {
  static constexpr unsigned kOfLane = 2;
  unsigned live;
  unsigned of_lane[kOfLane];

  // Asks for them; the first use waits.
  __device__ explicit Contexts(const Params& p) : live(live_count(p.staged.live_rows, p.rows)) {
#pragma unroll
    for (unsigned i = 0; i < kOfLane; ++i) {
      const unsigned row = i * kWarp + threadIdx.x % kWarp;
      of_lane[i] = row < p.rows ? p.staged.positions[row] + 1 : 0;
    }
  }
  __device__ unsigned operator[](unsigned row) const {  // the same row in all lanes
    return __shfl_sync(kAllLanes, row < kWarp ? of_lane[0] : of_lane[1], row % kWarp);
  }
};

// The tasks of a block: the tiles of all rows and units (a slice and a group) are dealt out in equal runs,
// and a task is the block's in whose run it begins. The whole warp calls.
class TaskWalk {
 public:
  __device__ TaskWalk(const Params& p, const Contexts& contexts) : p_(p), contexts_(contexts) {
    const unsigned lane = threadIdx.x % kWarp;
    const unsigned units = p.slices * p.groups;
    unsigned own[Contexts::kOfLane];
    unsigned through[Contexts::kOfLane];  // tiles up to and with the lane's rows
    unsigned all = 0;
#pragma unroll
    for (unsigned i = 0; i < Contexts::kOfLane; ++i) {
      own[i] = i * kWarp + lane < contexts.live ? tiles_of(contexts.of_lane[i]) * units : 0;
      through[i] = own[i];
#pragma unroll
      for (unsigned step = 1; step < kWarp; step *= 2) {
        const unsigned other = __shfl_up_sync(kAllLanes, through[i], step);
        if (lane >= step) through[i] += other;
      }
      through[i] += all;
      all = __shfl_sync(kAllLanes, through[i], kWarp - 1);
    }
    const unsigned each = all / gridDim.x;
    const unsigned rest = all - each * gridDim.x;
    unsigned tile = each * blockIdx.x + min(blockIdx.x, rest);  // where the block's run begins
    left_ = static_cast<int>(each + (blockIdx.x < rest ? 1 : 0));
    row_ = __popc(__ballot_sync(kAllLanes, through[0] <= tile)) +
           __popc(__ballot_sync(kAllLanes, through[1] <= tile));
    if (row_ >= contexts.live) return;
    const unsigned at = row_ % kWarp;
    tile -= row_ < kWarp ? __shfl_sync(kAllLanes, through[0] - own[0], at)
                         : __shfl_sync(kAllLanes, through[1] - own[1], at);
    context_ = contexts[row_];
    const unsigned of_unit = tiles_of(context_);
    while (tile >= of_unit) {
      tile -= of_unit;
      next_unit();
    }
    // The part that begins at this tile or later.
    const unsigned bits = split_bits(context_) - kTileBits;
    part_ = (tile + (1U << bits) - 1) >> bits;
    left_ -= static_cast<int>(min(part_ << bits, of_unit) - tile);
    settle();
  }

  __device__ bool more() const { return row_ < contexts_.live && left_ > 0; }
  __device__ unsigned row() const { return row_; }
  __device__ Task task() const {
    const unsigned bits = split_bits(context_);
    const unsigned first = part_ << bits;
    return {row_, part_, slice_, group_, context_, first, min(1U << bits, context_ - first)};
  }
  __device__ void advance() {
    left_ -= static_cast<int>(tiles_of(task().keys));
    ++part_;
    settle();
  }

 private:
  static constexpr unsigned kTileBits = 4;
  static_assert(1U << kTileBits == kTileKeys);

  __device__ void next_unit() {
    if (++group_ == p_.groups) {
      group_ = 0;
      ++slice_;
    }
  }
  // Past a unit's last part comes the next unit, past a row's last unit the next row.
  __device__ void settle() {
    if (part_ < parts_of(context_)) return;
    part_ = 0;
    next_unit();
    if (slice_ < p_.slices) return;
    slice_ = 0;
    if (++row_ < contexts_.live) context_ = contexts_[row_];
  }

  const Params& p_;
  Contexts contexts_;
  unsigned row_ = 0, slice_ = 0, group_ = 0, part_ = 0, context_ = 1;
  int left_ = 0;  // tiles of the block's run, from the task on
};

}  // namespace lynx::cuda::decode
