// Prefill attention in bf16 on tensor cores: the online softmax of FlashAttention-2 (Dao, 2023) over paged
// KV.
//
// One block per (tile of positions, KV head). The query heads of the KV head and the positions of the tile
// are the rows of one matrix, up to 128, 16 to a warp: row = position * heads + head. Keys and values come in
// tiles of 64 through two stages of shared memory, 16-byte pieces swizzled by key so that neither the copies
// nor ldmatrix meet a bank twice.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_any.h"
#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/prefill_rows.cuh"
#include "kernels/cuda/vec.cuh"

namespace lynx::cuda {
namespace {

using namespace prefill;

struct Params {
  std::byte* out;
  std::size_t out_stride;
  const float* q;
  std::size_t q_stride;
  unsigned per_kv;
  float scale;
  KvLayer kv;
  const BlockId* tables;
  unsigned table_stride;
  const PrefillTile* tiles;
};

// Copies a tile of keys and values. Keys past `last` repeat it: they are masked, and never read beyond the
// block table.
template <unsigned kD>
__device__ void load_stage(Stage<kD>& stage, const Params& p, const BlockId* table, const std::byte* base,
                           unsigned first, unsigned last) {
  constexpr unsigned kPieces = kD / 8;
#pragma unroll
  for (unsigned i = threadIdx.x; i < kKeys * kPieces; i += kThreads) {
    const unsigned key = i / kPieces;
    const unsigned piece = i % kPieces;
    const std::byte* from = base + token_offset(p.kv, table, min(first + key, last)) + piece * sizeof(uint4);
    copy_16(&stage.k[0][0] + swizzled<kD>(key, piece), from);
    copy_16(&stage.v[0][0] + swizzled<kD>(key, piece), from + p.kv.v_bytes);
  }
  end_of_copies();
}

template <typename Out>
__device__ void store2(std::byte* row, std::size_t column, float a, float b) {
  Out* to = reinterpret_cast<Out*>(row) + column;
  if constexpr (sizeof(Out) == sizeof(float))
    *reinterpret_cast<float2*>(to) = {a, b};
  else
    *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(a, b);
}

template <unsigned kD, typename Out>
__global__ void __launch_bounds__(kThreads, 1) prefill_attention_kernel(const Params p) {
  extern __shared__ std::byte memory[];
  auto* stages = reinterpret_cast<Stage<kD>*>(memory);
  release_dependents();
  grid_dependency_wait();
  const PrefillTile tile = p.tiles[blockIdx.y];
  const unsigned kv_head = blockIdx.x;
  const BlockId* table = p.tables + std::size_t{tile.sequence} * p.table_stride;
  const std::byte* base = p.kv.base + kv_head * kD * 2;
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned last = tile.position + tile.rows - 1;  // position that the last row sees up to
  const unsigned key_tiles = last / kKeys + 1;

  load_stage<kD>(stages[0], p, table, base, 0, last);

  const float* query[2];
  std::size_t column[2];
  unsigned batch_row[2];
  int position[2];
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    const unsigned row = threadIdx.x / kWarp * 16 + lane / 4 + h * 8;
    const unsigned of_tile = min(row / p.per_kv, tile.rows - 1);
    batch_row[h] = tile.first_row + of_tile;
    position[h] = static_cast<int>(tile.position + of_tile);
    column[h] = (kv_head * p.per_kv + row % p.per_kv) * std::size_t{kD};
    const bool exists = row < tile.rows * p.per_kv;
    query[h] = exists ? p.q + batch_row[h] * p.q_stride + column[h] : nullptr;
  }
  RowState<kD> state;
  state.load_queries(query, p.scale);

  for (unsigned t = 0; t < key_tiles; ++t) {
    if (t + 1 < key_tiles) {
      load_stage<kD>(stages[(t + 1) % kStages], p, table, base, (t + 1) * kKeys, last);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const Stage<kD>& stage = stages[t % kStages];
    float score[kKeys / 8][4] = {};
    state.scores(score, stage);
    const int first = static_cast<int>(t * kKeys);
    const int visible[2] = {position[0] + 1 - first, position[1] + 1 - first};
    state.soften(score, visible, first + static_cast<int>(kKeys) > static_cast<int>(tile.position) + 1);
    state.weigh(score, stage);
    __syncthreads();  // the next round's copies go into this stage
  }

#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    float sum = state.sum[h];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (query[h] == nullptr) continue;
    std::byte* row = p.out + batch_row[h] * p.out_stride * sizeof(Out);
#pragma unroll
    for (unsigned n = 0; n < kD / 8; ++n)
      store2<Out>(row, column[h] + n * 8 + 2 * (lane % 4), state.out[n][2 * h] / sum,
                  state.out[n][2 * h + 1] / sum);
  }
}

template <unsigned kD>
void launch_size(const Params& params, Dtype out, const PrefillAttentionArgs& a, cudaStream_t stream) {
  const Shape shape = {.grid = {a.kv.kv_heads, a.tile_count, 1},
                       .block = {kThreads, 1, 1},
                       .shared_bytes = kStages * sizeof(Stage<kD>)};
  switch (out) {
    case Dtype::kF32:
      return launch("prefill_attention", prefill_attention_kernel<kD, float>, shape, stream,
                    Overlap::kPrevious, params);
    case Dtype::kBf16:
      return launch("prefill_attention", prefill_attention_kernel<kD, __nv_bfloat16>, shape, stream,
                    Overlap::kPrevious, params);
  }
}

}  // namespace

std::uint32_t prefill_tile_rows(std::uint32_t q_heads, std::uint32_t kv_heads) {
  return std::max(1U, kRows / (q_heads / kv_heads));
}

void make_prefill_tiles(std::vector<PrefillTile>& out, std::span<const PrefillSequence> sequences,
                        std::uint32_t tile_rows) {
  const std::size_t before = out.size();
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    const PrefillSequence& of = sequences[s];
    for (std::uint32_t row = 0; row < of.rows; row += tile_rows)
      out.push_back({of.first_row + row, std::min(tile_rows, of.rows - row), of.context + row, s});
  }
  std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                   [](const PrefillTile& a, const PrefillTile& b) { return a.position > b.position; });
}

void prefill_attention(const PrefillAttentionArgs& a, cudaStream_t stream) {
  const unsigned per_kv = a.q.cols / a.kv.head_dim / a.kv.kv_heads;
  if (a.kv.dtype == KvDtype::kF32 || (a.kv.head_dim != 64 && a.kv.head_dim != 128) || per_kv > kRows)
    return attention_any(a.out, a.q, a.kv, a.rows, stream);
  const Params params = {.out = a.out.data,
                         .out_stride = a.out.stride,
                         .q = reinterpret_cast<const float*>(a.q.data),
                         .q_stride = a.q.stride,
                         .per_kv = per_kv,
                         .scale = kLog2E / std::sqrt(static_cast<float>(a.kv.head_dim)),
                         .kv = a.kv,
                         .tables = a.rows.tables,
                         .table_stride = a.rows.table_stride,
                         .tiles = a.tiles};
  if (a.kv.head_dim == 64) return launch_size<64>(params, a.out.dtype, a, stream);
  launch_size<128>(params, a.out.dtype, a, stream);
}

}  // namespace lynx::cuda
