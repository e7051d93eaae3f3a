// The fields of a request that say how its tokens are drawn, and how many.
#pragma once

#include "services/router/json_fields.h"
#include "services/router/openai_api.h"

namespace lynx {

// limits.vocab bounds the token ids of logit_bias.
void read_sampling(JsonFields& fields, const ApiLimits& limits, ApiRequest& out);

}  // namespace lynx
