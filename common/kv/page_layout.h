// Where every byte of a paged KV pool lies: the one place that knows offsets.
// One block holds block_tokens tokens of one layer: K [block_tokens, kv_heads, head_dim], then V of the same
// shape. The pool is [layers][blocks][block bytes]: consecutive blocks of one layer are contiguous, so a run
// moves as one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lynx {

using BlockId = std::uint32_t;

enum class KvDtype : std::uint8_t { kF32, kBf16 };
std::size_t bytes_of(KvDtype dtype);

struct PageLayout {
  std::uint32_t layers = 0;
  std::uint32_t blocks = 0;  // of the pool; may differ between peers, not part of the fingerprint
  std::uint32_t block_tokens = 16;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  KvDtype dtype = KvDtype::kF32;

  std::size_t token_bytes() const;  // of K or V of one token in one layer
  std::size_t block_bytes() const;  // K and V
  std::size_t pool_bytes() const;
  std::size_t block_offset(std::uint32_t layer, BlockId block) const;
  std::size_t k_offset(std::uint32_t layer, BlockId block,
                       std::uint32_t slot) const;  // slot: token within the block
  std::size_t v_offset(std::uint32_t layer, BlockId block, std::uint32_t slot) const;
  std::uint32_t blocks_for(std::uint32_t tokens) const;  // rounded up

  std::uint64_t fingerprint() const;  // equal = blocks may be exchanged byte for byte
  std::string describe() const;       // for the error of a mismatch
};

}  // namespace lynx
