// Chooses the next token of one sequence from its logits. Order of operations as in vLLM: end-of-sequence ban
// (min_tokens), logit bias, penalties; then greedy, or temperature, min-p, top-k, top-p and one draw.
// Equal scores: the smaller token id wins. Log-probabilities are those of the model's raw distribution,
// before any of it (vLLM's default, `raw_logprobs`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/core/result.h"
#include "common/text/token.h"
#include "common/transport/kv_transport.h"
#include "services/engine/sampling_params.h"

namespace lynx {

struct SamplingContext {
  std::span<const TokenId> tokens;  // prompt, then generated; the token sampled now follows
  std::uint32_t prompt_tokens = 0;  // how many of them are prompt
  std::span<const TokenId> eos;
};

// Keeps scratch memory between calls: one per engine thread. The result depends on the arguments alone.
class Sampler {
 public:
  // logits [vocab]. An error means that this row cannot be sampled (NaN or +inf from the model, everything
  // banned); the caller ends that one sequence. finish is left kNone: see finish_after.
  Result<SampledTokenData> sample(std::span<const float> logits, const SamplingParams& params,
                                  const SamplingContext& context);

 private:
  struct Candidate {
    float score;
    TokenId token;
  };

  void adjust(const SamplingParams& params, const SamplingContext& context);
  void penalize(const SamplingParams& params, const SamplingContext& context);
  std::optional<TokenId> choose(const SamplingParams& params, std::uint64_t position);  // empty: all banned
  TokenId draw(std::span<Candidate> candidates, double top_p, double uniform);
  void fill_logprobs(std::span<const float> logits, const SamplingParams& params, SampledTokenData& out);

  std::vector<float> scores_;             // [vocab]
  std::vector<std::uint32_t> generated_;  // [vocab] counts, all zero between calls
  std::vector<std::uint8_t> seen_;        // [vocab] in prompt or generated, all zero between calls
  std::vector<Candidate> candidates_;
};

}  // namespace lynx
