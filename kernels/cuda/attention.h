// Causal attention over paged KV, scaled by 1/sqrt(D): the row at position p sees keys 0..p of its sequence,
// which are all in the pool. Grouped query heads: Hq is a multiple of Hkv. D is 64 or 128; f32 accumulation.
//
// Row invariance. Decode: keys are cut into parts of a power of two, which are merged in order, and neither
// depends on anything but the row's own position. Prefill: keys come in tiles that start at multiples
// of 64, and a tile that a row does not see adds exact zeros to it, so neither the chunk nor the batch shows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernel_set.h"
#include "kernels/cuda/paged_kv.h"
#include "kernels/cuda/rope_store.h"
#include "kernels/tensor.h"

namespace lynx::cuda {

inline constexpr std::uint32_t kMaxDecodeRows = 64;

// With the norm, the rotary embedding and the write of the rows' keys and values: those before them must be
// in the pool since before the step's first kernel. What q holds afterwards is not said.
struct DecodeAttentionArgs {
  TensorView out;  // [T, Hq * D] bf16 or f32; T up to kMaxDecodeRows
  RopeStoreArgs in;
  std::uint32_t max_context = 0;  // no row's position reaches it
  // Device memory of decode_attention_workspace bytes, zeroed once. Launches of one stream share it, for any
  // number of rows up to the one that it was made for; heads, max_context and the set of kernels (of which
  // the portable one counts in it) stay the same.
  std::byte* workspace = nullptr;
  KernelSet kernels = KernelSet::kHopper;
};
// Tokens of the longest sequence that a pool of this kind takes there.
std::uint32_t decode_context_limit(KernelSet kernels, KvDtype dtype, std::uint32_t head_dim);
std::size_t decode_attention_workspace(std::uint32_t max_rows, std::uint32_t q_heads, std::uint32_t kv_heads,
                                       std::uint32_t head_dim, std::uint32_t max_context);
void decode_attention(const DecodeAttentionArgs& args, cudaStream_t stream);

// Query rows that one block works on: consecutive in the batch and in one sequence.
struct PrefillTile {
  std::uint32_t first_row;  // in the batch
  std::uint32_t rows;       // 1..prefill_tile_rows
  std::uint32_t position;   // of the first row
  std::uint32_t sequence;   // which block table
};
struct PrefillSequence {
  std::uint32_t first_row, rows, context;
};
std::uint32_t prefill_tile_rows(std::uint32_t q_heads, std::uint32_t kv_heads);
// Appends the tiles of sequence 0, 1, ..., the most expensive first.
void make_prefill_tiles(std::vector<PrefillTile>& out, std::span<const PrefillSequence> sequences,
                        std::uint32_t tile_rows);

struct PrefillAttentionArgs {
  TensorView out;                      // [T, Hq * D] bf16 or f32
  TensorView q;                        // [T, Hq * D] f32
  KvLayer kv;                          // bf16 or f32 (the latter without tensor cores)
  StagedRows rows;                     // tables; the others serve pools without tensor cores
  const PrefillTile* tiles = nullptr;  // [tile_count] device
  std::uint32_t tile_count = 0;
};
void prefill_attention(const PrefillAttentionArgs& args, cudaStream_t stream);

}  // namespace lynx::cuda
