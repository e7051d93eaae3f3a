#include "services/router/openai_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/core/json_error.h"
#include "services/router/json_fields.h"
#include "services/router/prompt_fields.h"
#include "services/router/sampling_fields.h"

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxCacheSaltBytes = 1024;
constexpr std::size_t kMaxStopTokens = 128;

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
  auto tokens = token_ids(*value, limits.vocab);
  if (!tokens || tokens->size() > kMaxStopTokens)
    return fields.fail("stop_token_ids", "must be a list of at most " + std::to_string(kMaxStopTokens) +
                                             " token ids below " + std::to_string(limits.vocab));
  out.stop_tokens = std::move(*tokens);
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
