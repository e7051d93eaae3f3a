// The last step from a request to what the workers get: defaults filled in, limits that need the tokens
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "services/router/openai_api.h"
#include "services/router/slo_class.h"

namespace lynx {

struct SequenceDefaults {
  std::uint32_t max_tokens = 256;  // when the request names none; less when the context is shorter
  std::uint64_t context = 0;       // prompt and generated tokens together
  std::uint64_t seed = 0;          // for a request without one
  Clock::time_point arrival;
};

// One sequence per choice: prompts in order, n of each, choice i with seed + i.
std::optional<ApiError> build_sequences(const ApiRequest& request,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        const SequenceDefaults& defaults, const SloClass& slo_class,
                                        std::size_t slo_index, std::vector<SequenceSpec>& out);

}  // namespace lynx
