// Which requests share KV in the prefill workers' prefix cache. A prompt whose beginning is there is quicker,
// so who shares with others can find out, guess by guess, what they have asked. By default each API key
// therefore has a scope of its own; a request may narrow that with a cache_salt (the field is vLLM's).
//
// A scope is told to workers as a number: a keyed digest, equal on all routers of one cluster secret. It
// tells nothing of the key. Without a cluster secret, as loopback allows, each CacheScope draws a secret of
// its own: then routers do not share scopes, and a router that starts anew finds none of its old ones.
// Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lynx {

class CacheScope {
 public:
  // secret: the cluster's, or empty. by_key: clients present keys, and each key is a scope. Throws
  // std::runtime_error when there is no randomness.
  CacheScope(std::string secret, bool by_key);

  // authorization: the header, which has been let in. cache_salt: empty = none. 0: shared with everyone who
  // has 0.
  std::uint64_t of(std::string_view authorization, std::string_view cache_salt) const;

 private:
  const std::string secret_;
  const bool by_key_;
};

}  // namespace lynx
