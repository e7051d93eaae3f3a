// Which experts requests use, as far as a router can know it: the profile of one request, the sum of those
// that run on a decode worker, and a memory of earlier ones. A profile is counted in prefill, and a request's
// worker is chosen before that; so the choice rests on what earlier requests with the same beginning (a
// system prompt, the turns before) have shown, and the request's own profile takes the place of that guess
// once it is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/text/token.h"

namespace lynx {

// [layers, experts] share of the request's tokens that each expert of each layer gets, in units of 1/255.
using ExpertProfile = std::vector<std::uint8_t>;
using SharedProfile = std::shared_ptr<const ExpertProfile>;  // null: unknown

// What the requests of one decode worker use together. Whole numbers inside, so what is added and removed
// again leaves no trace. Loop thread.
class ExpertLoad {
 public:
  // False for a profile of another model than those it holds.
  bool fits(const ExpertProfile& profile) const;
  void add(const ExpertProfile& profile);     // fits
  void remove(const ExpertProfile& profile);  // added before
  // Experts, summed over layers, that one more token by this profile is expected to add to a decode step of
  // those here: sum of p x product of (1 - q), as if tokens chose by themselves. Requests of another model
  // share none.
  double new_experts(const ExpertProfile& profile) const;

 private:
  std::vector<std::uint32_t> used_;  // [layers, experts] -ln of the chance that no request uses it, 2^-9 nats
  std::size_t profiles_ = 0;
};

// Profiles by the beginning of the prompt. Bounded; what has not been learnt for longest is forgotten.
// Workers of two models (a rolling upgrade) share it: the latest overwrites. Loop thread.
class ProfileMemory {
 public:
  explicit ProfileMemory(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // One key for each beginning of 16, 32, 64 ... tokens, shortest first; none for a shorter prompt.
  static std::vector<std::uint64_t> keys_of(std::span<const TokenId> prompt);

  // Every beginning follows its requests: a moving mean over about four.
  void learn(std::span<const std::uint64_t> keys, const SharedProfile& profile);
  // Of the longest beginning that is known; null when none is.
  SharedProfile predict(std::span<const std::uint64_t> keys) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    SharedProfile profile;
    std::list<std::uint64_t>::iterator age;
  };
  void put(std::uint64_t key, SharedProfile profile);

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<std::uint64_t> order_;  // latest first
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace lynx
