#include "services/prefill/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace lynx {

// FNV-1a over the words: good enough to spread, equality decides.
std::size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ key.parent;
  for (const TokenId token : key.tokens) hash = (hash ^ token) * 0x100000001b3ULL;
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}

PrefixCache::Key PrefixCache::key(std::uint64_t parent, std::span<const TokenId> tokens,
                                  std::size_t index) const {
  const auto block = tokens.subspan(index * block_tokens_, block_tokens_);
  return {parent, {block.begin(), block.end()}};
}

std::vector<BlockId> PrefixCache::find(std::span<const TokenId> tokens, std::size_t most) const {
  std::vector<BlockId> out;
  std::uint64_t parent = 0;
  for (const std::size_t full = std::min(tokens.size() / block_tokens_, most); out.size() < full;) {
    const auto at = entries_.find(key(parent, tokens, out.size()));
    if (at == entries_.end()) break;
    out.push_back(at->second.block);
    parent = at->second.serial;
  }
  return out;
}

void PrefixCache::add(std::span<const TokenId> tokens, std::span<const BlockId> blocks,
                      const std::function<void(BlockId)>& keep) {
  std::uint64_t parent = 0;
  for (std::size_t i = 0; i < tokens.size() / block_tokens_; ++i) {
    Key wanted = key(parent, tokens, i);
    const auto [at, fresh] = entries_.try_emplace(wanted, Entry{next_serial_, blocks[i]});
    parent = at->second.serial;
    if (!fresh) continue;
    ++next_serial_;
    ++version_;
    by_block_.insert_or_assign(blocks[i], std::move(wanted));
    keep(blocks[i]);
  }
}

void PrefixCache::forget(BlockId block) {
  const auto at = by_block_.find(block);
  if (at == by_block_.end()) return;
  entries_.erase(at->second);
  by_block_.erase(at);
  ++version_;
}

}  // namespace lynx
