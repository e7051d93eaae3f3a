// Which requests share KV in the prefill workers' prefix cache. A prompt whose beginning is there is quicker,
// so who shares with others can find out, guess by guess, what they have asked. By default each API key
// therefore has a scope of its own; a request may narrow that with a cache_salt (the field is vLLM's).
//
// A scope is told to workers as a number: a keyed digest, equal on all routers of one cluster secret. It
// tells nothing of the key. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lynx {

class CacheScope {
 public:
  // by_key: clients present keys, and each key is a scope.
  CacheScope(std::string secret, bool by_key) : secret_(std::move(secret)), by_key_(by_key) {}

  // authorization: the header, which has been let in. cache_salt: empty = none. 0: shared with everyone who
  // has 0.
  std::uint64_t of(std::string_view authorization, std::string_view cache_salt) const;

 private:
  const std::string secret_;
  const bool by_key_;
};

}  // namespace lynx
