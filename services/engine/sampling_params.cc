#include "services/engine/sampling_params.h"

#include <cmath>

namespace lynx {
namespace {

Status wrong(const char* field, const char* expected) {
  return {ErrorCode::kInvalidArgument, std::string("sampling.") + field + ": expected " + expected};
}

}  // namespace

Status check_sampling(const SamplingParams& params, std::uint32_t vocab) {
  const auto finite = [](float x) { return std::isfinite(x); };
  if (!finite(params.temperature) || params.temperature < 0) return wrong("temperature", "a number >= 0");
  if (!(params.top_p > 0 && params.top_p <= 1)) return wrong("top_p", "a number in (0, 1]");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return wrong("min_p", "a number in [0, 1]");
  if (!finite(params.repetition_penalty) || params.repetition_penalty <= 0)
    return wrong("repetition_penalty", "a number > 0");
  if (!finite(params.presence_penalty)) return wrong("presence_penalty", "a finite number");
  if (!finite(params.frequency_penalty)) return wrong("frequency_penalty", "a finite number");
  if (params.max_tokens == 0) return wrong("max_tokens", "at least 1");
  for (const auto& [token, bias] : params.logit_bias) {
    if (token >= vocab) return wrong("logit_bias", "token ids inside the vocabulary");
    if (!finite(bias)) return wrong("logit_bias", "finite biases");
  }
  return {};
}

}  // namespace lynx
