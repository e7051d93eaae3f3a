// One layer of a paged KV pool in device memory, and the rows of a step that use it. Offsets are those of
// common/kv/page_layout.h, spelt out for a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kv/page_layout.h"

namespace lynx::cuda {

struct KvLayer {
  std::byte* base = nullptr;      // of block 0 of the layer
  std::size_t block_bytes = 0;    // from block to block
  std::uint32_t token_bytes = 0;  // from token to token within a block: kv_heads * head_dim elements
  std::uint32_t v_bytes = 0;      // from a block's K to its V
  std::uint32_t block_tokens = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  KvDtype dtype = KvDtype::kBf16;
};

inline KvLayer kv_layer(std::byte* pool, const PageLayout& layout, std::uint32_t layer) {
  return {.base = pool + layout.k_offset(layer, 0, 0),
          .block_bytes = layout.block_bytes(),
          .token_bytes = static_cast<std::uint32_t>(layout.token_bytes()),
          .v_bytes = static_cast<std::uint32_t>(layout.v_offset(layer, 0, 0) - layout.k_offset(layer, 0, 0)),
          .block_tokens = layout.block_tokens,
          .kv_heads = layout.kv_heads,
          .head_dim = layout.head_dim,
          .dtype = layout.dtype};
}

// All in device memory, written before the step's first kernel starts, unchanged until its last has ended.
struct StagedRows {
  const std::uint32_t* positions = nullptr;  // [T] of the token in its sequence
  const std::uint32_t* sequence = nullptr;   // [T] which block table; null: table i for row i
  const BlockId* tables = nullptr;           // [sequences, table_stride]
  std::uint32_t table_stride = 0;
  const std::uint32_t* live_rows = nullptr;  // [1]; see rows.h
};

}  // namespace lynx::cuda
