#include "services/router/prompt_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxMessages = 4096;

// One prompt: a string or an array of token ids.
bool read_prompt(const json& value, const ApiLimits& limits, std::vector<Prompt>& out) {
  if (value.is_string()) {
    out.emplace_back(value.get<std::string>());
    return true;
  }
  auto tokens = token_ids(value, limits.vocab);
  if (!tokens) return false;
  out.emplace_back(std::move(*tokens));
  return true;
}

// A message's content: a string, or parts of type text, joined.
void read_content(JsonFields& fields, ChatMessage& out) {
  const json* content = fields.take("content");
  if (content == nullptr) return fields.fail("content", "is missing");
  if (content->is_string()) {
    out.content = content->get<std::string>();
    return;
  }
  if (!content->is_array()) return fields.fail("content", "must be a string or a list of parts");
  for (std::size_t i = 0; i < content->size(); ++i) {
    const json& part = (*content)[i];
    const std::string place = "content[" + std::to_string(i) + "]";
    if (!part.is_object()) return fields.fail(place, "must be an object");
    if (part.value("type", json()) != "text") return fields.fail(place + ".type", "must be 'text'");
    const auto text = part.find("text");
    if (part.size() != 2 || text == part.end() || !text->is_string())
      return fields.fail(place, "must hold 'type' and 'text', a string, and nothing else");
    out.content += text->get<std::string>();
  }
}

void read_message(JsonFields& fields, ChatMessage& out) {
  if (!fields.text("role", out.role) && !fields.failed()) fields.fail("role", "is missing");
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (!fields.failed() && std::find(std::begin(kRoles), std::end(kRoles), out.role) == std::end(kRoles))
    fields.fail("role", "must be one of system, developer, user, assistant, tool");
  if (out.role == "developer") out.role = "system";  // the newer name for the same turn
  const json* calls = fields.take("tool_calls");  // an empty list: clients send the assistant's message back
  if (calls != nullptr && *calls != json::array())
    fields.fail("tool_calls", "cannot be served: tools are not supported");
  if (fields.take("tool_call_id") != nullptr)
    fields.fail("tool_call_id", "cannot be served: tools are not supported");
  read_content(fields, out);  // after them: a message of calls alone has no content
  fields.text("name", out.name);
  fields.take("refusal");
}

}  // namespace

void read_prompts(JsonFields& fields, const ApiLimits& limits, ApiRequest& out) {
  const json* value = fields.take("prompt");
  if (value == nullptr) return fields.fail("prompt", "is missing");
  const bool several =
      value->is_array() && !value->empty() && (value->front().is_string() || value->front().is_array());
  if (!several) {
    if (!read_prompt(*value, limits, out.prompts))
      fields.fail("prompt", "must be a string, an array of token ids below " + std::to_string(limits.vocab) +
                                ", or a list of those");
    return;
  }
  if (value->size() > limits.max_choices)
    return fields.fail("prompt", "holds more than " + std::to_string(limits.max_choices) + " prompts");
  for (std::size_t i = 0; i < value->size(); ++i)
    if (!read_prompt((*value)[i], limits, out.prompts))
      return fields.fail("prompt[" + std::to_string(i) + "]",
                         "must be a string or an array of token ids below " + std::to_string(limits.vocab));
}

void read_messages(JsonFields& fields, ApiRequest& out) {
  const json* value = fields.take("messages");
  if (value == nullptr) return fields.fail("messages", "is missing");
  if (!value->is_array() || value->empty() || value->size() > kMaxMessages)
    return fields.fail("messages", "must be a list of 1 to " + std::to_string(kMaxMessages) + " messages");
  for (std::size_t i = 0; i < value->size(); ++i) {
    const std::string place = "messages[" + std::to_string(i) + "]";
    if (!(*value)[i].is_object()) return fields.fail(place, "must be an object");
    JsonFields message((*value)[i], place + ".");
    read_message(message, out.messages.emplace_back());
    if (const auto error = message.finish()) return fields.adopt(*error);
  }
}

}  // namespace lynx
