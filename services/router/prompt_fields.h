// The fields of a request that the model continues: the prompts of completions, the messages of a chat.
#pragma once

#include "services/router/json_fields.h"
#include "services/router/openai_api.h"

namespace lynx {

void read_prompts(JsonFields& fields, const ApiLimits& limits, ApiRequest& out);  // "prompt"
void read_messages(JsonFields& fields, ApiRequest& out);                          // "messages"

}  // namespace lynx
