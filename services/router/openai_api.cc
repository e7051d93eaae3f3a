#include "services/router/openai_api.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "common/core/json_error.h"
#include "services/router/json_fields.h"

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTokens = 1 << 24;  // far above any context: the context check has the last word
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxCacheSaltBytes = 1024;
constexpr std::size_t kMaxStopTokens = 128;
constexpr std::size_t kMaxLogitBias = 1024;
constexpr std::size_t kMaxMessages = 4096;

bool is_token(const json& value, std::size_t vocab) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() < vocab;
}

void read_token_limits(JsonFields& fields, ApiRequest& out) {
  auto& sampling = out.sampling;
  std::uint32_t newer = 0;
  fields.integer("max_tokens", 1, kMaxTokens, sampling.max_tokens);
  if (fields.integer("max_completion_tokens", 1, kMaxTokens, newer)) {
    if (sampling.max_tokens != 0 && sampling.max_tokens != newer)
      fields.fail("max_completion_tokens", "differs from 'max_tokens', its older name");
    sampling.max_tokens = newer;
    out.max_tokens_field = "max_completion_tokens";
  }
  fields.integer("min_tokens", 0, kMaxTokens, sampling.min_tokens);
  if (sampling.max_tokens != 0 && sampling.min_tokens > sampling.max_tokens)
    fields.fail("min_tokens", "is above '" + out.max_tokens_field + "'");
}

void read_logit_bias(JsonFields& fields, const ApiLimits& limits, SamplingSettings& out) {
  const json* value = fields.take("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() || value->size() > kMaxLogitBias)
    return fields.fail("logit_bias",
                       "must be an object of at most " + std::to_string(kMaxLogitBias) + " members");
  for (const auto& [key, bias] : value->items()) {
    TokenId token = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    if (!whole || token >= limits.vocab)
      return fields.fail("logit_bias." + key,
                         "does not name a token id below " + std::to_string(limits.vocab));
    if (!bias.is_number() || bias.get<double>() < -100 || bias.get<double>() > 100)
      return fields.fail("logit_bias." + key, "must be a number from -100 to 100");
    out.logit_bias.emplace_back(token, bias.get<float>());
  }
}

void read_logprobs(JsonFields& fields, ApiRequest& out) {
  auto& sampling = out.sampling;
  if (out.kind == ApiKind::kCompletion) {
    sampling.logprobs = fields.integer("logprobs", 0, kMaxTopLogprobs, sampling.top_logprobs);
    return;
  }
  fields.boolean("logprobs", sampling.logprobs);
  if (fields.integer("top_logprobs", 0, kMaxTopLogprobs, sampling.top_logprobs) && !sampling.logprobs)
    fields.fail("top_logprobs", "needs 'logprobs' to be true");
}

void read_sampling(JsonFields& fields, const ApiLimits& limits, ApiRequest& out) {
  auto& sampling = out.sampling;
  read_token_limits(fields, out);
  fields.real("temperature", 0, 2, sampling.temperature);
  fields.real("top_p", 0, 1, sampling.top_p);
  if (sampling.top_p == 0) fields.fail("top_p", "must be above 0");
  std::int64_t top_k = 0;
  fields.integer("top_k", -1, kMaxTokens, top_k);  // -1 and 0 both mean off
  sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));
  fields.real("min_p", 0, 1, sampling.min_p);
  fields.real("presence_penalty", -2, 2, sampling.presence_penalty);
  fields.real("frequency_penalty", -2, 2, sampling.frequency_penalty);
  fields.real("repetition_penalty", 0, 10, sampling.repetition_penalty);
  if (sampling.repetition_penalty == 0) fields.fail("repetition_penalty", "must be above 0");
  out.seed_given = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max(), sampling.seed);
  fields.boolean("ignore_eos", sampling.ignore_eos);
  read_logit_bias(fields, limits, sampling);
  read_logprobs(fields, out);
}

void read_stop(JsonFields& fields, const ApiLimits& limits, ApiRequest& out) {
  const json* value = fields.take("stop");
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > limits.max_stops)
    return fields.fail("stop", "holds more than " + std::to_string(limits.max_stops) + " strings");
  for (const auto& item : list) {
    if (!item.is_string()) return fields.fail("stop", "must be a string or a list of strings");
    out.stop.push_back(item.get<std::string>());
    if (out.stop.back().empty() || out.stop.back().size() > kMaxStopBytes)
      return fields.fail("stop", "strings must have 1 to " + std::to_string(kMaxStopBytes) + " bytes");
  }
}

// vLLM's names, and what it does.
void read_stop_tokens(JsonFields& fields, const ApiLimits& limits, ApiRequest& out) {
  fields.boolean("include_stop_str_in_output", out.keep_stop);
  fields.boolean("skip_special_tokens", out.skip_special);
  const json* value = fields.take("stop_token_ids");
  if (value == nullptr) return;
  const auto fits = [&](const json& item) { return is_token(item, limits.vocab); };
  if (!value->is_array() || value->size() > kMaxStopTokens ||
      !std::all_of(value->begin(), value->end(), fits))
    return fields.fail("stop_token_ids", "must be a list of at most " + std::to_string(kMaxStopTokens) +
                                             " token ids below " + std::to_string(limits.vocab));
  out.stop_tokens = value->get<std::vector<TokenId>>();
}

void read_stream(JsonFields& fields, ApiRequest& out) {
  fields.boolean("stream", out.stream);
  const json* options = fields.take("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.fail("stream_options", "must be an object");
  if (!out.stream) return fields.fail("stream_options", "needs 'stream' to be true");
  JsonFields inner(*options, "stream_options.");
  inner.boolean("include_usage", out.include_usage);
  if (const auto error = inner.finish()) fields.adopt(*error);
}

void read_ours(JsonFields& fields, ApiRequest& out) {
  fields.text("slo_class", out.slo_class);
  if (fields.text("cache_salt", out.cache_salt) &&
      (out.cache_salt.empty() || out.cache_salt.size() > kMaxCacheSaltBytes))
    fields.fail("cache_salt", "must have 1 to " + std::to_string(kMaxCacheSaltBytes) + " bytes");
  const json* lynx = fields.take("lynx");
  if (lynx == nullptr) return;
  if (!lynx->is_object()) return fields.fail("lynx", "must be an object");
  JsonFields inner(*lynx, "lynx.");
  inner.boolean("exact", out.sampling.exact);
  inner.boolean("receipt", out.sampling.receipt);
  if (const auto error = inner.finish()) fields.adopt(*error);
  if (out.sampling.receipt && out.stream && !out.include_usage)
    fields.fail("lynx.receipt",
                "of a stream needs 'stream_options.include_usage' to be true: it is part of the usage");
}

// One prompt: a string or an array of token ids.
bool read_prompt(const json& value, const ApiLimits& limits, std::vector<Prompt>& out) {
  if (value.is_string()) {
    out.emplace_back(value.get<std::string>());
    return true;
  }
  const auto fits = [&](const json& item) { return is_token(item, limits.vocab); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), fits)) return false;
  out.emplace_back(value.get<std::vector<TokenId>>());
  return true;
}

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

void read_neutral(JsonFields& fields, ApiKind kind) {
  for (const auto* name : {"user", "metadata", "store", "service_tier"}) fields.ignore(name);
  if (kind == ApiKind::kCompletion) {
    fields.only("echo", false);
    fields.only("suffix", "");
    fields.only("best_of", 1);
    return;
  }
  fields.only("tools", json::array());
  fields.only("tool_choice", "none");
  fields.only("functions", json::array());
  fields.ignore("parallel_tool_calls");
  fields.only("response_format", {{"type", "text"}});
  fields.only("modalities", json::array({"text"}));
}

ApiError not_json(const json::exception& e) {
  return bad_field("", "the body is not valid JSON: " + json_reason(e));
}

}  // namespace

std::optional<ApiError> parse_api_request(ApiKind kind, std::string_view body, const ApiLimits& limits,
                                          ApiRequest& out) {
  json document;
  try {
    document = json::parse(body);
  } catch (const json::exception& e) {
    return not_json(e);
  }
  if (!document.is_object()) return bad_field("", "the body must be a JSON object");
  JsonFields fields(document);
  out.kind = kind;
  fields.text("model", out.model);
  kind == ApiKind::kChat ? read_messages(fields, out) : read_prompts(fields, limits, out);
  read_sampling(fields, limits, out);
  read_stop(fields, limits, out);
  read_stop_tokens(fields, limits, out);
  read_stream(fields, out);
  fields.integer("n", 1, limits.max_choices, out.n);
  if (out.n * std::max<std::size_t>(out.prompts.size(), 1) > limits.max_choices)
    fields.fail("n", "times the number of prompts is above " + std::to_string(limits.max_choices));
  read_ours(fields, out);
  read_neutral(fields, kind);
  return fields.finish();
}

}  // namespace lynx
