// How keys and values come into shared memory in decode: one warp copies, token by token, and runs across the
// borders of tasks, so that memory never idles. It reads no output of an earlier kernel of the step (the
// row's own token is left to the warps that compute), so it starts before these end.
#pragma once

#include "kernels/cuda/decode_task.cuh"
#include "kernels/cuda/shared_ring.cuh"

namespace lynx::cuda::decode {

// A stage holds a tile, 16 keys of a task: [K, V][16 tokens][row_bytes].
__host__ __device__ constexpr unsigned tile_bytes(unsigned row_bytes) { return 2 * kTileKeys * row_bytes; }

// Up to 32 keys of a task; lane l knows where token l lies. Block tables are read a chunk ahead.
struct Chunk {
  Task task;
  unsigned first;  // among the task's keys
  bool valid;
  std::uint32_t place;

  __device__ unsigned in_pool() const {  // keys of the task that lie in the pool
    return min(task.keys, task.context - 1 - task.first);
  }
  __device__ void locate(const Params& p) {
    const unsigned key = first + threadIdx.x % kWarp;
    place = key < in_pool() ? token_place(p, table_of(p.staged, task.row), task.first + key) : 0;
  }
};

// One tile: lanes 0 to 15 copy K, lanes 16 to 31 V, each from its token on: all that lie together, or one.
// `place`: of the lane's token.
__device__ inline void copy_tile(const Params& p, RingFiller& ring, const Chunk& chunk, unsigned first,
                                 std::uint32_t place, std::uint64_t policy) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned token = lane % kTileKeys;
  const unsigned in_pool = chunk.in_pool();
  const unsigned tokens = first < in_pool ? min(kTileKeys, in_pool - first) : 0;
  const unsigned position = chunk.task.first + first + token;
  const unsigned slot = position - p.block_tokens(position) * p.kv.block_tokens;
  const bool together = p.slices == 1;  // the tokens of a block
  const unsigned run = together ? min(p.kv.block_tokens - slot, tokens - token) : 1;
  std::byte* stage = ring.begin(2 * tokens * p.row_bytes);
  if (token < tokens && (!together || token == 0 || slot == 0)) {
    const std::byte* from = p.kv.base + std::size_t{place} * sizeof(uint4) + lane / kTileKeys * p.kv.v_bytes +
                            chunk.task.slice * p.row_bytes;
    bulk_copy(stage + lane * p.row_bytes, from, run * p.row_bytes, ring.full(), policy);
  }
  ring.end();
}

// All tiles of the block's tasks; one warp. may_copy: called before copies, returns when they may be asked
// for; where the first keys lie is known by then.
template <typename MayCopy>
__device__ void stream_keys(const Params& p, RingFiller& ring, std::uint64_t policy,
                            const MayCopy& may_copy) {
  TaskWalk walk(p, Contexts(p));
  Chunk chunk;
  chunk.valid = false;
  unsigned first = 0;  // of the next chunk
#pragma unroll 1
  for (bool begun = false; !begun || chunk.valid; begun = true) {
    Chunk next;
    next.valid = walk.more();
    if (next.valid) {
      next.task = walk.task();
      next.first = first;
      next.locate(p);
      first += kWarp;
      if (first >= next.task.keys) {
        first = 0;
        walk.advance();
      }
    }
    if (chunk.valid) {
      may_copy();
#pragma unroll 1
      for (unsigned tile = chunk.first; tile < min(chunk.first + kWarp, chunk.task.keys); tile += kTileKeys) {
        const unsigned lane = tile - chunk.first + threadIdx.x % kTileKeys;
        copy_tile(p, ring, chunk, tile, __shfl_sync(kAllLanes, chunk.place, lane), policy);
      }
    }
    chunk = next;
  }
}

}  // namespace lynx::cuda::decode
