// What the router asks of the workers for one generated sequence, and the tokens that come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/clock.h"
#include "common/text/token.h"
#include "services/engine/step_receipt.h"

namespace lynx {

struct SamplingSettings {
  float temperature = 1;    // 0 = greedy
  std::uint32_t top_k = 0;  // 0 = off
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint32_t min_tokens = 0;
  std::uint32_t max_tokens = 0;  // generated tokens of the whole sequence
  bool ignore_eos = false;
  bool logprobs = false;
  std::uint8_t top_logprobs = 0;
  bool exact = false;    // lynx.exact
  bool receipt = false;  // lynx.receipt
};

struct SequenceSpec {
  std::vector<TokenId> prompt;
  SamplingSettings sampling;
  std::size_t slo_class = 0;     // index into the configured classes
  std::uint64_t cache_salt = 0;  // see cache_scope.h
  Clock::time_point arrival;
  Clock::time_point deadline;

  std::uint32_t total_tokens() const {
    return static_cast<std::uint32_t>(prompt.size()) + sampling.max_tokens;
  }
};

enum class TokenFinish : std::uint8_t { kNone, kStop, kLength };

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct GeneratedToken {
  TokenId id = 0;
  std::uint32_t index = 0;  // 0-based place in the generated text
  TokenFinish finish = TokenFinish::kNone;
  float logprob = 0;
  std::vector<TokenLogprob> top{};
  std::optional<StepReceipt> receipt{};  // of a decode step, where the request asked for it
};

}  // namespace lynx
