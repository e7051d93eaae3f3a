#include "services/prefill/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace lynx {

// Equality decides; this spreads.
std::size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = seed;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  };
  mix(key.parent);
  mix(key.salt);
  for (const TokenId token : key.tokens) mix(token);
  return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

PrefixCache::Key PrefixCache::key(std::uint64_t parent, const Prompt& prompt, std::size_t index) const {
  const auto block = prompt.tokens.subspan(index * block_tokens_, block_tokens_);
  return {parent, prompt.salt, {block.begin(), block.end()}};
}

std::vector<BlockId> PrefixCache::find(const Prompt& prompt, std::size_t most) const {
  std::vector<BlockId> out;
  std::uint64_t parent = 0;
  for (const std::size_t full = std::min(prompt.tokens.size() / block_tokens_, most); out.size() < full;) {
    const auto at = entries_.find(key(parent, prompt, out.size()));
    if (at == entries_.end()) break;
    out.push_back(at->second.block);
    parent = at->second.serial;
  }
  return out;
}

void PrefixCache::add(const Prompt& prompt, std::span<const BlockId> blocks,
                      const std::function<void(BlockId)>& keep) {
  std::uint64_t parent = 0;
  for (std::size_t i = 0; i < prompt.tokens.size() / block_tokens_; ++i) {
    Key wanted = key(parent, prompt, i);
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
