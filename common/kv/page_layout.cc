#include "common/kv/page_layout.h"

#include <initializer_list>

namespace lynx {

namespace {

constexpr std::uint64_t kFormatVersion = 1;  // raise when the order of bytes within a block changes

// FNV-1a over the little-endian bytes of each value: the same on every machine and in every build.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> values) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint64_t value : values) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      hash ^= (value >> shift) & 0xffU;
      hash *= 0x100000001b3ULL;
    }
  }
  return hash;
}

const char* name_of(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return "f32";
    case KvDtype::kBf16:
      return "bf16";
  }
  return "unknown";
}

}  // namespace

std::size_t bytes_of(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return 4;
    case KvDtype::kBf16:
      return 2;
  }
  return 0;
}

std::size_t PageLayout::token_bytes() const { return std::size_t{kv_heads} * head_dim * bytes_of(dtype); }

std::size_t PageLayout::block_bytes() const { return 2 * block_tokens * token_bytes(); }

std::size_t PageLayout::pool_bytes() const { return std::size_t{layers} * blocks * block_bytes(); }

std::size_t PageLayout::block_offset(std::uint32_t layer, BlockId block) const {
  return (std::size_t{layer} * blocks + block) * block_bytes();
}

std::size_t PageLayout::k_offset(std::uint32_t layer, BlockId block, std::uint32_t slot) const {
  return block_offset(layer, block) + slot * token_bytes();
}

std::size_t PageLayout::v_offset(std::uint32_t layer, BlockId block, std::uint32_t slot) const {
  return k_offset(layer, block, block_tokens + slot);
}

std::uint32_t PageLayout::blocks_for(std::uint32_t tokens) const {
  return tokens / block_tokens + (tokens % block_tokens == 0 ? 0 : 1);
}

std::uint64_t PageLayout::fingerprint() const {
  return hash_of(
      {kFormatVersion, layers, block_tokens, kv_heads, head_dim, static_cast<std::uint64_t>(dtype)});
}

std::string PageLayout::describe() const {
  return std::to_string(layers) + " layers, " + std::to_string(block_tokens) + " tokens a block, " +
         std::to_string(kv_heads) + " kv heads of " + std::to_string(head_dim) + ", " + name_of(dtype);
}

}  // namespace lynx
