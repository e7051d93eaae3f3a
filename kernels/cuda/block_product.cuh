// A matrix product of attention_block.cu: [rows, k] by weights [n, k], shared out over the grid.
//
// A cluster of four blocks takes a run of 16-output tiles; each of its blocks takes a run of the parts of 512
// k, so that it needs only its own k of the rows. A warp multiplies one tile by one part and sends the sums
// to the block of the cluster whose tile it is, which adds up the parts in rising order. Order and rounding
// are those of skinny_gemm.cu, which cuts matrices of 2^21 weights and more into the same parts (block_k_of);
// with at least 2,048 inputs and as many outputs there are no smaller ones here.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/decode_task.cuh"
#include "kernels/cuda/shared_ring.cuh"
#include "kernels/cuda/skinny_gemm_parts.cuh"

namespace lynx::cuda::block {

inline constexpr unsigned kCluster = 4;
inline constexpr unsigned kComputeBarrier = 1;
using decode::kComputeThreads;
using decode::kWarps;
using skinny::kTile;

inline constexpr unsigned kPartK = 512;
inline constexpr unsigned kMaxOwnParts = 2;
inline constexpr unsigned kPartSteps = kPartK / 32;
inline constexpr unsigned kFragments = kPartSteps * 2 * kWarp;  // uint4 of 16 rows and a part
inline constexpr unsigned kTilesOfStage = 2;                    // tiles by parts
// A stage holds outputs as rows, k along them: the even ones, then the odd ones, half of the banks further,
// so that eight lanes meet no bank twice that read 64 bytes of two neighbours.
inline constexpr unsigned kOddOutputs = kTilesOfStage * kTile / 2 * kPartK * 2 + 64;  // where they begin
inline constexpr unsigned kProductStage = 2 * kOddOutputs;
static_assert(kProductStage % 128 == 0, "stages are aligned to 128 bytes");

struct Product {
  const std::uint16_t* weights;  // [n, k] bf16
  unsigned n, k;
};

__host__ __device__ constexpr unsigned first_part_of(unsigned k, unsigned rank) {
  return k / kPartK * rank / kCluster;
}

struct Share {  // of a block
  unsigned first_part, parts;
  unsigned first_tile, tiles;

  __device__ explicit Share(const Product& p) {
    const unsigned rank = cluster_rank();
    const unsigned cluster = blockIdx.x / kCluster;
    const unsigned clusters = gridDim.x / kCluster;
    first_part = first_part_of(p.k, rank);
    parts = first_part_of(p.k, rank + 1) - first_part;
    first_tile = p.n / kTile * cluster / clusters;
    tiles = p.n / kTile * (cluster + 1) / clusters - first_tile;
  }
  __device__ unsigned tasks() const { return tiles * parts; }  // task: tile * parts + part
  __device__ unsigned stages() const { return (tasks() + kTilesOfStage - 1) / kTilesOfStage; }
  __device__ unsigned row_bytes() const { return parts * kPartK * 2; }
  // Where an output of a stage lies in it.
  __device__ unsigned place(unsigned output) const {
    return output / 2 * row_bytes() + output % 2 * kOddOutputs;
  }
};

// The block's weights into the ring; one warp, a lane an output. may_copy: called before each stage with its
// number, returns when it may be asked for.
template <typename MayCopy>
__device__ void stream_weights(const Product& p, const Share& s, RingFiller& ring, std::uint64_t policy,
                               const MayCopy& may_copy) {
  if (s.parts == 0) return;
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned bytes = s.parts * kPartK * 2;
  const unsigned tiles_at_once = kTilesOfStage / s.parts;
  for (unsigned tile = 0; tile < s.tiles; tile += tiles_at_once) {
    const unsigned outputs = min(tiles_at_once, s.tiles - tile) * kTile;
    may_copy(tile / tiles_at_once);
    std::byte* stage = ring.begin(outputs * bytes);
    if (lane < outputs) {
      const std::size_t output = (s.first_tile + tile) * kTile + lane;
      bulk_copy(stage + s.place(lane), p.weights + output * p.k + s.first_part * kPartK, bytes, ring.full(),
                policy);
    }
    ring.end();
  }
}

// The sums that come to a block: [its tiles][all parts][row tiles * 16 rows][16 outputs], see skinny::place.
template <unsigned kRowTiles>
struct SumsOf {
  static constexpr unsigned kRows = kRowTiles * 16;
  static constexpr unsigned kOfPart = kRows * kTile;  // floats
};
// Tile i of a cluster's is block i % 4's.
__host__ __device__ constexpr unsigned tiles_of_rank(unsigned tiles, unsigned rank) {
  return (tiles + kCluster - 1 - rank) / kCluster;
}
template <unsigned kRowTiles>
__device__ unsigned bytes_that_come(const Product& p, const Share& s) {
  return tiles_of_rank(s.tiles, cluster_rank()) * (p.k / kPartK) * SumsOf<kRowTiles>::kOfPart *
         static_cast<unsigned>(sizeof(float));
}

// x: [own parts][row tiles][kFragments].
template <unsigned kRowTiles>
__device__ void multiply_share(const Product& p, const Share& s, const Ring& ring, StageCursor& at,
                               const uint4* x, const Inbox& inbox, float* sums) {
  constexpr unsigned kSliceSteps = skinny::kSlice / 32;
  const unsigned warp = warp_index();
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned half = warp % kTilesOfStage;  // of a stage
#pragma unroll 1
  for (unsigned stage = 0; stage < s.stages(); ++stage) {
    at.wait_full(ring);
    const bool ours = stage % (kWarps / kTilesOfStage) == warp / kTilesOfStage;
    const unsigned task = stage * kTilesOfStage + half;
    if (ours && task < s.tasks()) {
      const unsigned part = s.parts == 1 ? 0 : half;
      const unsigned tile = s.parts == 1 ? task : stage;
      const std::byte* low = ring.stage(at.at) + part * kPartK * 2 + lane % 4 * sizeof(uint4) +
                             s.place((s.parts == 1 ? half * kTile : 0) + lane / 4);
      const std::byte* high = low + 8 / 2 * s.row_bytes();
      const uint4* rows = x + part * kRowTiles * kFragments + lane;
      skinny::TileSums<kRowTiles> sum;
#pragma unroll 2
      for (unsigned k = 0; k < kPartK / skinny::kSlice; ++k) {
        skinny::Slice slice;
#pragma unroll
        for (unsigned i = 0; i < kSliceSteps; ++i) {
          slice.low[i] = *reinterpret_cast<const uint4*>(low + (k * kSliceSteps + i) * 64);
          slice.high[i] = *reinterpret_cast<const uint4*>(high + (k * kSliceSteps + i) * 64);
        }
        skinny::multiply<kRowTiles>(sum, slice, rows + k * kSliceSteps * 2 * kWarp, kFragments);
      }
      const unsigned slot = tile / kCluster * (p.k / kPartK) + s.first_part + part;
      const Sender sender(inbox, sums + slot * SumsOf<kRowTiles>::kOfPart, tile % kCluster);
      skinny::each_sum<kRowTiles>(sum, [&](unsigned place, float a, float b) { sender.send(place, a, b); });
    }
    at.pass(ring);
  }
}

// After all sums have come: store(row, output, four sums) for the outputs of this block's tiles.
template <unsigned kRowTiles, typename Store>
__device__ void add_parts(const Product& p, const Share& s, const float* sums, unsigned live,
                          const Store& store) {
  constexpr unsigned kOfPart = SumsOf<kRowTiles>::kOfPart;
  constexpr unsigned kOfTile = kOfPart / 4;  // groups of four outputs
  const unsigned parts = p.k / kPartK;
  const unsigned groups = tiles_of_rank(s.tiles, cluster_rank()) * kOfTile;
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < groups; i += kComputeThreads) {
    const unsigned tile = i / kOfTile;
    const unsigned row = i % kOfTile / (kTile / 4);
    const unsigned output = i % (kTile / 4) * 4;
    if (row >= live) continue;
    const float* from = sums + tile * parts * kOfPart + skinny::place(row, output);
    float4 sum = {};
#pragma unroll
    for (unsigned part = 0; part < kCluster * kMaxOwnParts; ++part) {
      if (part >= parts) break;
      const float4 v = *reinterpret_cast<const float4*>(from + part * kOfPart);
      sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
    }
    store(row, (s.first_tile + tile * kCluster + cluster_rank()) * kTile + output, sum);
  }
}

}  // namespace lynx::cuda::block
