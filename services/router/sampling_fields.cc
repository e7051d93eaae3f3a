#include "services/router/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTokens = 1 << 24;  // far above any context: the context check has the last word
constexpr std::int64_t kMaxTopLogprobs = 20;
constexpr std::size_t kMaxLogitBias = 1024;

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

}  // namespace

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

}  // namespace lynx
