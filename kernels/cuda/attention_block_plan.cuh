// How a launch of attention_block.cu fits the device: blocks, and what lies in the shared memory of each.
#pragma once

#include <algorithm>
#include <atomic>

#include "kernels/cuda/attention_block_rows.cuh"
#include "kernels/cuda/decode_rows.cuh"
#include "kernels/cuda/launch.h"

namespace lynx::cuda::block {

using decode::kThreads;

// How far a block has come, by barriers of one arrival each: its rows have come (more than 16 of them); it
// has arrived at the meeting that tells of its q, k and v, and at the one that tells of its parts of rows.
struct Reached {
  std::uint64_t rows, qkv, parts;

  // One thread; publish_barriers() must follow.
  __device__ void init() {
    barrier_init(rows, 1);
    barrier_init(qkv, 1);
    barrier_init(parts, 1);
  }
};

// Beside the ring, and the rows and sums of a product, whose sizes follow from the launch.
template <unsigned kD>
struct Static {
  RingBarriers ring;
  Reached reached;
  Inbox squares, qkv_sums, o_sums;
  NormShared norm;
  decode::HeadTables<kD> heads;
};

static_assert(kProductStage >= decode::tile_bytes(decode::kSliceElements * 2), "a stage holds either");

inline unsigned row_tiles_of(unsigned rows) { return rows <= 16 ? 1 : 2; }

inline unsigned most_own_parts(unsigned k) {
  unsigned most = 0;
  for (unsigned rank = 0; rank < kCluster; ++rank)
    most = std::max(most, first_part_of(k, rank + 1) - first_part_of(k, rank));
  return most;
}

inline unsigned rows_bytes(const Product& p, unsigned row_tiles) {
  return most_own_parts(p.k) * row_tiles * kFragments * static_cast<unsigned>(sizeof(uint4));
}

inline unsigned sums_bytes(const Product& p, unsigned clusters, unsigned row_tiles) {
  const unsigned tiles = (p.n / kTile + clusters - 1) / clusters;
  return tiles_of_rank(tiles, 0) * (p.k / kPartK) * row_tiles * 16 * kTile * sizeof(float);
}

// What the launch needs for its shape; no blocks: it does not fit.
struct Plan {
  unsigned blocks = 0, stages = 0, qkv_x_bytes = 0, o_x_bytes = 0, shared_bytes = 0;
};

static_assert(sizeof(Static<64>) <= sizeof(Static<128>));
inline constexpr unsigned kSharedBytes = 227 * 1024 - sizeof(Static<128>) - 1024;
inline constexpr unsigned kFewestStages = 3;

template <typename Kernel>
Plan make_plan(Kernel kernel, const Product& qkv, const Product& o, unsigned row_tiles) {
  static std::atomic<int> known{0};  // how many clusters the device holds: asked once, for all these kernels
  Plan plan;
  const Shape shape = {
      .grid = {kCluster, 1, 1}, .block = {kThreads, 1, 1}, .shared_bytes = kSharedBytes, .cluster = kCluster};
  int clusters = known.load(std::memory_order_relaxed);
  if (clusters == 0) {
    clusters = max_active_clusters("attention_block", kernel, shape);
    known.store(clusters, std::memory_order_relaxed);
  }
  if (clusters <= 0) return plan;
  plan.qkv_x_bytes = rows_bytes(qkv, row_tiles);
  plan.o_x_bytes = rows_bytes(o, row_tiles);
  const unsigned rest = std::max(plan.qkv_x_bytes + sums_bytes(qkv, clusters, row_tiles),
                                 plan.o_x_bytes + sums_bytes(o, clusters, row_tiles));
  if (rest + kFewestStages * kProductStage > kSharedBytes) return plan;
  plan.blocks = clusters * kCluster;
  plan.stages = std::min(kMaxStages, (kSharedBytes - rest) / kProductStage);
  plan.shared_bytes = plan.stages * kProductStage + rest;
  return plan;
}

inline bool takes_product(const Product& p) {
  return p.n % kTile == 0 && p.k % kPartK == 0 && p.k >= kCluster * kPartK &&
         most_own_parts(p.k) <= kMaxOwnParts;
}

}  // namespace lynx::cuda::block
