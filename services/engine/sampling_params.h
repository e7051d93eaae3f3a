// How the next token of a sequence is chosen, as the client asked for it. Names and meanings are vLLM's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/core/result.h"
#include "common/text/token.h"

namespace lynx {

enum class FinishReason : std::uint8_t { kNone, kStop, kLength };  // proto FinishReason, same order

struct SamplingParams {
  float temperature = 1;    // 0 = greedy
  std::uint32_t top_k = 0;  // 0 = off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;  // over prompt and generated tokens
  float presence_penalty = 0;    // over generated tokens
  float frequency_penalty = 0;   // over generated tokens
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint32_t min_tokens = 0;  // until then no end-of-sequence token is sampled
  std::uint32_t max_tokens = 0;  // generated tokens of the whole request, those before a resume included
  bool ignore_eos = false;
  bool logprobs = false;
  std::uint8_t top_logprobs = 0;
  bool exact = false;    // lynx.exact: this sequence's rows keep their full top-k
  bool receipt = false;  // lynx.receipt: each decode step tells what it did to this sequence
};

// Whoever sends a request is outside: every number is checked once, here, before the engine sees it.
Status check_sampling(const SamplingParams& params, std::uint32_t vocab);

}  // namespace lynx
