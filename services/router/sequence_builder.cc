#include "services/router/sequence_builder.h"

#include <algorithm>

namespace lynx {
namespace {

std::optional<ApiError> set_max_tokens(const ApiRequest& request, std::size_t prompt,
                                       const SequenceDefaults& defaults, SamplingSettings& sampling) {
  const std::uint64_t room = defaults.context - prompt;
  if (sampling.max_tokens == 0) {
    sampling.max_tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(defaults.max_tokens, room));
  } else if (sampling.max_tokens > room) {
    return bad_field(request.max_tokens_field,
                     "'" + request.max_tokens_field + "' of " + std::to_string(sampling.max_tokens) +
                         " and the prompt of " + std::to_string(prompt) +
                         " tokens are together above the context of " + std::to_string(defaults.context));
  }
  if (sampling.min_tokens <= sampling.max_tokens) return std::nullopt;
  return bad_field("min_tokens", "'min_tokens' is above the " + std::to_string(sampling.max_tokens) +
                                     " tokens that may be generated");
}

}  // namespace

std::optional<ApiError> build_sequences(const ApiRequest& request,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        const SequenceDefaults& defaults, const SloClass& slo_class,
                                        std::size_t slo_index, std::vector<SequenceSpec>& out) {
  const std::uint64_t first_seed = request.seed_given ? request.sampling.seed : defaults.seed;
  for (const auto& prompt : prompts) {
    SequenceSpec spec;
    spec.prompt = prompt;
    spec.sampling = request.sampling;
    spec.slo_class = slo_index;
    spec.arrival = defaults.arrival;
    spec.deadline = defaults.arrival + slo_class.deadline;
    if (auto error = set_max_tokens(request, prompt.size(), defaults, spec.sampling)) return error;
    for (std::uint32_t i = 0; i < request.n; ++i) {
      spec.sampling.seed = first_seed + out.size();
      out.push_back(spec);
    }
  }
  return std::nullopt;
}

}  // namespace lynx
