// What a launch of decode_portable.cu gets, and how it is cut into tasks.
#pragma once

#include "kernels/cuda/attention_parts.cuh"

namespace lynx::cuda::decode_portable {

inline constexpr unsigned kWarps = 8;
inline constexpr unsigned kThreads = kWarps * kWarp;
inline constexpr unsigned kHeads = 8;  // query heads of a task
inline constexpr unsigned kTileKeys = 16;
inline constexpr unsigned kMaxSplit = 1024;
inline constexpr unsigned kMaxParts = 128;

// Keys of a part. Longer contexts have parts enough to fill the device; larger ones cost less merging.
__host__ __device__ constexpr unsigned split_tokens(unsigned context) {
  return context <= 4096 ? 256 : context <= 16384 ? 512 : kMaxSplit;
}
__host__ __device__ constexpr unsigned parts_of(unsigned context) {
  return (context + split_tokens(context) - 1) / split_tokens(context);
}
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

// The index-th task of the step; false past the last. Every warp finds it by itself.
__device__ inline bool find_task(Task& task, const Params& p, unsigned index, unsigned live) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned units = p.kv.kv_heads * p.groups;
  const unsigned wanted = index / units;
  unsigned before = 0;
  for (unsigned first = 0; first < live; first += kWarp) {
    const unsigned context = first + lane < live ? p.staged.positions[first + lane] + 1 : 0;
    const unsigned parts = context == 0 ? 0 : parts_of(context);
    const unsigned through = warp_prefix_sum(parts, lane);
    const unsigned all = __shfl_sync(kAllLanes, through, kWarp - 1);
    if (wanted < before + all) {
      const unsigned at = __ffs(__ballot_sync(kAllLanes, wanted < before + through)) - 1;
      const unsigned start = __shfl_sync(kAllLanes, through - parts, at);
      const unsigned unit = index % units;
      task.row = first + at;
      task.part = wanted - before - start;
      task.kv_head = unit / p.groups;
      task.group = unit % p.groups;
      task.context = __shfl_sync(kAllLanes, context, at);
      task.first = task.part * split_tokens(task.context);
      task.keys = min(split_tokens(task.context), task.context - task.first);
      return true;
    }
    before += all;
  }
  return false;
}

}  // namespace lynx::cuda::decode_portable
