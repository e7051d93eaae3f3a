// Seeded requests of every size for the end-to-end tests: token prompts cut from real text, so nothing hangs
// on where a tokenizer would cut.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "common/text/tokenizer.h"

namespace lynx::testing {

struct MixedRequest {
  std::vector<TokenId> prompt;
  std::uint32_t max_tokens = 0;
};

// Prompts of 1 to max_prompt tokens (short ones more often), 1 to max_new tokens to generate.
std::vector<MixedRequest> mixed_requests(const Tokenizer& tokenizer, std::size_t count,
                                         std::uint32_t max_prompt, std::uint32_t max_new, std::uint64_t seed);

}  // namespace lynx::testing
