// Which blocks of the pool hold the KV of which tokens, so that a prompt that begins like an earlier one
// computes only its rest. A full block is known by its own tokens and the block before it, back to the
// prompt's beginning: looked up exactly, not by a hash alone. Everything in here was computed exactly
// (prefill never remaps), and a row's bits do not depend on its batch, so reused KV equals recomputed KV bit
// for bit.
//
// A prompt that is found is quicker, so whoever may look learns what others have asked. Hence the salt:
// prompts of two salts never meet. The hash is seeded, so that nobody can choose tokens that crowd one
// bucket.
//
// The bytes stay in the ledger's free blocks until those are handed out again; forget() follows then. IO
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/kv/page_layout.h"
#include "common/text/token.h"

namespace lynx {

class PrefixCache {
 public:
  PrefixCache(std::uint32_t block_tokens, std::uint64_t seed)
      : block_tokens_(block_tokens), entries_(0, KeyHash{seed}) {}

  struct Prompt {
    std::uint64_t salt = 0;
    std::span<const TokenId> tokens;
  };
  // The blocks of the prompt's beginning that are known, in order, at most `most`.
  std::vector<BlockId> find(const Prompt& prompt, std::size_t most) const;
  // blocks[i] holds tokens [i * block_tokens, ...). Full blocks only; `keep` is called for each that is new
  // here.
  void add(const Prompt& prompt, std::span<const BlockId> blocks, const std::function<void(BlockId)>& keep);
  void forget(BlockId block);                         // it is about to be overwritten
  std::uint64_t version() const { return version_; }  // while it stays, find() answers as it did
  std::size_t size() const { return entries_.size(); }

 private:
  struct Key {
    std::uint64_t parent = 0;  // serial of the block before it; 0 = the prompt's beginning
    std::uint64_t salt = 0;
    std::vector<TokenId> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::uint64_t seed;
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    std::uint64_t serial = 0;  // never used twice: what hung on a forgotten block is not found again
    BlockId block = 0;
  };

  Key key(std::uint64_t parent, const Prompt& prompt, std::size_t index) const;

  const std::uint32_t block_tokens_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::unordered_map<BlockId, Key> by_block_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t version_ = 1;
};

}  // namespace lynx
