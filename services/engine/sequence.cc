#include "services/engine/sequence.h"

#include <algorithm>

namespace lynx {

std::uint32_t max_cached_tokens(std::uint32_t length, std::uint32_t prompt_tokens,
                                const SamplingParams& sampling, std::uint32_t context) {
  const std::uint64_t longest =
      std::min<std::uint64_t>(std::uint64_t{prompt_tokens} + sampling.max_tokens, context);
  return std::max(length, static_cast<std::uint32_t>(longest - 1));
}

FinishReason finish_after(const Sequence& sequence, const ModelConfig& model) {
  const bool eos = std::find(model.eos.begin(), model.eos.end(), sequence.tokens.back()) != model.eos.end();
  if (eos && !sequence.sampling.ignore_eos) return FinishReason::kStop;
  if (sequence.generated() >= sequence.sampling.max_tokens) return FinishReason::kLength;
  if (sequence.length() >= model.context) return FinishReason::kLength;
  return FinishReason::kNone;
}

Status check_request(const std::vector<TokenId>& tokens, std::uint32_t generated,
                     const SamplingParams& sampling, const ModelConfig& model) {
  const auto wrong = [](std::string message) {
    return Status{ErrorCode::kInvalidArgument, std::move(message)};
  };
  if (generated >= tokens.size()) return wrong("tokens: the prompt is empty");
  if (tokens.size() >= model.context)
    return wrong("tokens: " + std::to_string(tokens.size()) + " leave no room in a context of " +
                 std::to_string(model.context));
  const auto outside =
      std::find_if(tokens.begin(), tokens.end(), [&](TokenId t) { return t >= model.vocab; });
  if (outside != tokens.end())
    return wrong("tokens[" + std::to_string(outside - tokens.begin()) + "]: " + std::to_string(*outside) +
                 " is outside the vocabulary of " + std::to_string(model.vocab));
  if (Status status = check_sampling(sampling, model.vocab); !status) return status;
  if (generated >= sampling.max_tokens) return wrong("sampling.max_tokens: nothing is left to generate");
  return {};
}

}  // namespace lynx
