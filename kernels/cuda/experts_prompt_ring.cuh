// What the blocks of experts_prompt_hopper.cu work on, and the warps that bring it into shared memory.
#pragma once

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/experts_job.h"
#include "kernels/cuda/experts_row_tiles.cuh"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda::hopper_prompt {

inline constexpr unsigned kWarpgroup = 128;
inline constexpr unsigned kConsumers = 2 * kWarpgroup;  // 128 outputs each
inline constexpr unsigned kThreads = kWarpgroup + kConsumers;
inline constexpr unsigned kUnits = 8;  // of 32 outputs
inline constexpr unsigned kRowGroup = 16;
inline constexpr unsigned kMostRows = 160;      // their sums take 160 registers of a consumer
inline constexpr unsigned kStepInputs = 64;     // two blocks of 32
inline constexpr unsigned kPiecesOfUnit = 256;  // of 16 bytes, in a step
inline constexpr unsigned kPiecesOfRow = 8;
inline constexpr unsigned kStages = 4;

// args.x: in the order of the fragments, partial: [B, k, H] bf16 (both: experts_prompt_rows.h).
struct Job : MatrixJob {
  std::uint32_t* claimed;  // tiles beyond the first of each block; zero before the launch
};

struct Stage {
  uint4 weights[kUnits][kPiecesOfUnit];
  uint4 rows[kMostRows][kPiecesOfRow];  // swizzled: wgmma.cuh
};
static_assert(sizeof(Stage) % 1024 == 0 && sizeof(Stage::weights) % 1024 == 0, "wgmma.cuh");

// Where the rows of a tile go to.
struct Slots {
  std::uint32_t row[kMostRows];
  std::uint32_t slot[kMostRows];
  float weight[kMostRows];
};

struct Tile {
  const std::byte* weights;  // of the expert's matrix
  std::uint32_t unit, units;
  std::uint32_t first_pair, rows;  // no rows: there is no tile left
};

// The tiles of a block. A tile is claimed and told while the one before is brought; nobody is behind that by
// more than kStages tiles, so none of these is still read when it is written again.
inline constexpr unsigned kClaims = 8;
static_assert(kClaims > kStages + 2);

struct Shared {
  Stage stages[kStages];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
  std::uint64_t told[kClaims];
  Tile claims[kClaims];
  Slots slots[2][2];                            // of each warpgroup: of this tile and of the one before
  std::uint32_t first[kMaxExpertsOfLayer + 1];  // tiles of rows before each active expert
  std::uint32_t offsets[kMaxExpertsOfLayer + 1];
  std::uint32_t active[kMaxExpertsOfLayer];
  std::uint32_t experts;
};
static_assert(sizeof(Shared) <= 227 * 1024, "a block's shared memory with compute capability 9.0");

using StageCursor = Cursor<kStages>;

// Tiles of the same rows follow one another.
struct Tiles {
  const Job& job;
  const Shared& s;
  std::uint32_t of_rows = ceil_div(job.matrix.unit_rows, kUnits);
  std::uint32_t count = s.first[s.experts] * of_rows;

  __device__ Tile at(std::uint32_t i) const {
    if (i >= count) return {};
    const std::uint32_t row_tile = i / of_rows;
    const std::uint32_t expert = active_expert_of(s.first, s.experts, row_tile);
    const std::uint32_t rows = s.offsets[expert + 1] - s.offsets[expert];
    const RowShare share = row_share<kRowGroup>(rows, s.first + expert, row_tile);
    const std::uint32_t unit = i % of_rows * kUnits;
    return {.weights = job.args.packed + s.active[expert] * job.expert_bytes + job.matrix.expert_offset,
            .unit = unit,
            .units = min(kUnits, job.matrix.unit_rows - unit),
            .first_pair = s.offsets[expert] + share.begin,
            .rows = share.end - share.begin};
  }
};

// Which tiles a block does, in their order.
struct Claims {
  unsigned turn = 0;

  // One thread.
  __device__ void tell_next(Shared& s, const Tile& tile) const {
    s.claims[turn % kClaims] = tile;
    arrive(s.told[turn % kClaims]);
  }
  __device__ Tile next(Shared& s) {
    const unsigned at = turn % kClaims;
    wait(s.told[at], turn / kClaims % 2);
    ++turn;
    return s.claims[at];
  }
};

// Arrives when the copies that this thread has begun have come.
__device__ inline void arrive_after_copies(std::uint64_t& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

// A lane's unit of the tile's weights, of which it copies 4 KiB in each step.
struct UnitCopies {
  static constexpr unsigned kBytes = sizeof(Stage::weights[0]);
  const std::byte* from;
  std::uint32_t column;  // bytes from 128 inputs to the next
  bool inside;

  __device__ UnitCopies(const Job& job, const Tile& tile) : from(tile.weights), column(0) {
    const unsigned lane = threadIdx.x % kWarp;
    inside = lane < tile.units;
    if (!inside) return;
    from += unit_offset(job.matrix, tile.unit + lane, 0);
    column = column_bytes(job.matrix, tile.unit + lane);
  }
  __device__ void copy(Stage& stage, std::uint64_t& full, std::uint32_t step) const {
    if (inside)
      bulk_copy(stage.weights[threadIdx.x % kWarp], from + std::size_t{step / 2} * column + step % 2 * kBytes,
                kBytes, full, evict_normal_policy());
  }
};

// A thread's rows of a tile, one of each 16: an eighth of their 128 bytes. Beyond the tile's rows the last
// one comes again, and what it gives is not written.
template <bool kDown>
struct RowCopies {
  static constexpr unsigned kMostGroups = kMostRows / kRowGroup;
  std::uint32_t at[kMostGroups];  // in 16 bytes from the start of the inputs

  __device__ RowCopies(const Job& job, const Tile& tile) {
    const std::uint32_t stride = (kDown ? job.activation_stride : job.args.shape.hidden) / 8;
#pragma unroll
    for (unsigned t = 0; t < kMostGroups; ++t) {
      const std::uint32_t pair =
          tile.first_pair + min(threadIdx.x / kPiecesOfRow + t * kRowGroup, tile.rows - 1);
      at[t] = t * kRowGroup < tile.rows ? (kDown ? pair : job.args.plan.row_of[pair]) * stride : 0;
    }
  }
  __device__ void copy(Stage& stage, const uint4* inputs, bool inside, std::uint32_t rows) const {
    const unsigned row = threadIdx.x / kPiecesOfRow;
    uint4* to = &stage.rows[row][(threadIdx.x ^ row) % kPiecesOfRow];
#pragma unroll
    for (unsigned t = 0; t < kMostGroups; ++t)
      if (t * kRowGroup < rows)
        copy_16_or_zeros(to + t * kRowGroup * kPiecesOfRow, inputs + (inside ? at[t] : 0), inside);
  }
};

// A warpgroup: all bring rows, the first warp weights, too. The first weights are on their way before the
// kernel before, which has the rows' inputs, has ended.
template <bool kDown>
__device__ inline void bring_stages(const Job& job, Shared& s) {
  const Tiles tiles{job, s};
  const std::uint32_t steps = ceil_div(job.matrix.inputs, kStepInputs);
  const bool with_weights = warp_index() == 0;
  const bool first_lane = threadIdx.x == 0;
  const std::uint32_t piece_input = threadIdx.x % kPiecesOfRow * 8;
  const auto* inputs =
      reinterpret_cast<const uint4*>(kDown ? job.activations : job.args.x) + threadIdx.x % kPiecesOfRow;
  StageCursor next;
  Claims claims;
  bool waited = false;
  std::uint32_t claimed = blockIdx.x;  // known to one thread
  if (first_lane) claims.tell_next(s, tiles.at(claimed));
  for (Tile tile = claims.next(s); tile.rows > 0; tile = claims.next(s)) {
    if (first_lane) claimed = gridDim.x + atomicAdd(job.claimed, 1);
    const UnitCopies weights(job, tile);
    const RowCopies<kDown> rows(job, tile);
    const auto bring_weights = [&](unsigned stage, std::uint32_t step) {
      if (first_lane) arrive_expecting(s.full[stage], tile.units * UnitCopies::kBytes);
      __syncwarp();
      weights.copy(s.stages[stage], s.full[stage], step);
    };
    std::uint32_t brought = 0;  // steps whose weights are on their way
    if (!waited) {
      brought = min(steps, kStages);
      if (with_weights) {
#pragma unroll 1
        for (std::uint32_t step = 0; step < brought; ++step) bring_weights(step, step);
      }
      grid_dependency_wait();
      waited = true;
    }
    for (std::uint32_t step = 0; step < steps; ++step) {
      wait(s.empty[next.at], next.parity ^ 1);
      if (with_weights && step >= brought) bring_weights(next.at, step);
      rows.copy(s.stages[next.at], inputs + step * (kStepInputs / 8),
                step * kStepInputs + piece_input < job.matrix.inputs, tile.rows);
      arrive_after_copies(s.full[next.at]);
      next.advance();
      if (step == 0 && first_lane) claims.tell_next(s, tiles.at(claimed));
    }
  }
  if (!waited) grid_dependency_wait();
}

}  // namespace lynx::cuda::hopper_prompt
