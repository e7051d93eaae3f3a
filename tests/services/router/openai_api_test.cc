// Request bodies: what is read, and that everything else is a 400 that names its field.
#include "services/router/openai_api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lynx {
namespace {

ApiLimits limits() {
  ApiLimits out;
  out.max_choices = 8;
  out.vocab = 258;
  return out;
}

ApiRequest parsed(ApiKind kind, const std::string& body) {
  ApiRequest out;
  const auto error = parse_api_request(kind, body, limits(), out);
  EXPECT_FALSE(error) << body << ": " << error->message;
  return out;
}

TEST(OpenAiApi, ReadsEveryFieldOfACompletion) {
  const auto request = parsed(ApiKind::kCompletion, R"({
    "model": "m", "prompt": "hello", "max_tokens": 7, "min_tokens": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
    "min_p": 0.05, "seed": -3, "stop": ["a", "b"], "n": 2, "logprobs": 3, "presence_penalty": 0.1,
    "frequency_penalty": -0.2, "repetition_penalty": 1.1, "logit_bias": {"5": -100, "257": 2.5}, "ignore_eos": true,
    "stream": true, "stream_options": {"include_usage": true}, "user": "u", "lynx": {"exact": true, "receipt": true},
    "slo_class": "batch", "cache_salt": "s", "stop_token_ids": [3, 257], "include_stop_str_in_output": true,
    "skip_special_tokens": false, "echo": false, "best_of": 1, "suffix": null})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.prompts.size(), 1U);
  EXPECT_EQ(std::get<std::string>(request.prompts[0]), "hello");
  const auto& sampling = request.sampling;
  EXPECT_EQ(sampling.max_tokens, 7U);
  EXPECT_EQ(sampling.min_tokens, 2U);
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 40U);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.05F);
  EXPECT_TRUE(request.seed_given);
  EXPECT_EQ(sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_tokens, (std::vector<TokenId>{3, 257}));
  EXPECT_TRUE(request.keep_stop);
  EXPECT_FALSE(request.skip_special);
  EXPECT_EQ(request.n, 2U);
  EXPECT_TRUE(sampling.logprobs);
  EXPECT_EQ(sampling.top_logprobs, 3);
  EXPECT_FLOAT_EQ(sampling.presence_penalty, 0.1F);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty, -0.2F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(sampling.logit_bias.size(), 2U);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(sampling.exact);
  EXPECT_TRUE(sampling.receipt);
  EXPECT_EQ(request.slo_class, "batch");
  EXPECT_EQ(request.cache_salt, "s");
}

TEST(OpenAiApi, DefaultsAreThoseOfTheApi) {
  const auto request = parsed(ApiKind::kCompletion, R"({"prompt": "x", "temperature": null, "stop": null})");
  EXPECT_FLOAT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.max_tokens, 0U);
  EXPECT_FALSE(request.seed_given);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.sampling.logprobs);
}

TEST(OpenAiApi, PromptsComeInFourForms) {
  const auto forms = {R"("text")", R"([1, 2, 257])", R"(["a", "b"])", R"([[1, 2], [3]])"};
  const std::vector<std::size_t> counts{1, 1, 2, 2};
  std::size_t i = 0;
  for (const auto* form : forms)
    EXPECT_EQ(parsed(ApiKind::kCompletion, std::string(R"({"prompt": )") + form + "}").prompts.size(),
              counts[i++]);
}

TEST(OpenAiApi, ReadsChatMessagesAndTextParts) {
  const auto request = parsed(ApiKind::kChat, R"({"messages": [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "c", "refusal": null, "tool_calls": []}],
    "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 2, "stop": "x", "response_format": {"type": "text"}})");
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.messages[1].name, "ann");
  EXPECT_EQ(request.sampling.max_tokens, 9U);
  EXPECT_EQ(request.max_tokens_field, "max_completion_tokens");
  EXPECT_EQ(request.sampling.top_logprobs, 2);
}

struct BadBody {
  ApiKind kind;
  const char* body;
  const char* param;  // the field that the error must name
};

const std::string kLongSalt = R"({"prompt": "x", "cache_salt": ")" + std::string(1025, 's') + "\"}";

class OpenAiApiRefuses : public ::testing::TestWithParam<BadBody> {};

TEST_P(OpenAiApiRefuses, NamingTheField) {
  ApiRequest out;
  const auto error = parse_api_request(GetParam().kind, GetParam().body, limits(), out);
  ASSERT_TRUE(error) << GetParam().body;
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->param, GetParam().param) << error->message;
  const auto shape = nlohmann::json::parse(to_json(*error))["error"];
  EXPECT_EQ(shape["type"], "invalid_request_error");
  EXPECT_FALSE(shape["message"].get<std::string>().empty());
  if (error->param.empty()) {
    EXPECT_TRUE(shape["param"].is_null());
  } else {
    EXPECT_NE(error->message.find(error->param), std::string::npos) << error->message;
  }
}

constexpr auto kText = ApiKind::kCompletion;
constexpr auto kChat = ApiKind::kChat;

INSTANTIATE_TEST_SUITE_P(
    Bodies, OpenAiApiRefuses,
    ::testing::Values(
        BadBody{kText, "", ""}, BadBody{kText, "{", ""}, BadBody{kText, "[]", ""}, BadBody{kText, "null", ""},
        BadBody{kText, "{\"prompt\": \"\xFF\"}", ""},
        BadBody{kText, R"({"prompt": "x", "temperature": 1e999})", ""}, BadBody{kText, "{}", "prompt"},
        BadBody{kChat,
                R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}]})",
                "messages[0].tool_calls"},
        BadBody{kChat, R"({"messages": [{"role": "tool", "content": "4", "tool_call_id": "1"}]})",
                "messages[0].tool_call_id"},
        BadBody{kText, R"({"prompt": "x", "stop_token_ids": [258]})", "stop_token_ids"},
        BadBody{kText, R"({"prompt": "x", "stop_token_ids": 4})", "stop_token_ids"},
        BadBody{kText, R"({"prompt": "x", "skip_special_tokens": 1})", "skip_special_tokens"},
        BadBody{kText, R"({"prompt": "x", "include_stop_str_in_output": "yes"})",
                "include_stop_str_in_output"},
        BadBody{kText, R"({"prompt": 3})", "prompt"}, BadBody{kText, R"({"prompt": {"a": 1}})", "prompt"},
        BadBody{kText, R"({"prompt": [1, 258]})", "prompt"},
        BadBody{kText, R"({"prompt": [1, -1]})", "prompt"},
        BadBody{kText, R"({"prompt": [1, 1.5]})", "prompt"},
        BadBody{kText, R"({"prompt": ["a", 3]})", "prompt[1]"},
        BadBody{kText, R"({"prompt": ["a", ["b"]]})", "prompt[1]"},
        BadBody{kText, R"({"prompt": ["1","2","3","4","5","6","7","8","9"]})", "prompt"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": 0})", "max_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": -1})", "max_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": 1.5})", "max_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": "4"})", "max_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": 18446744073709551615})", "max_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": 4, "max_completion_tokens": 5})",
                "max_completion_tokens"},
        BadBody{kText, R"({"prompt": "x", "max_tokens": 4, "min_tokens": 5})", "min_tokens"},
        BadBody{kText, R"({"prompt": "x", "temperature": -0.1})", "temperature"},
        BadBody{kText, R"({"prompt": "x", "temperature": 2.1})", "temperature"},
        BadBody{kText, R"({"prompt": "x", "temperature": true})", "temperature"},
        BadBody{kText, R"({"prompt": "x", "top_p": 0})", "top_p"},
        BadBody{kText, R"({"prompt": "x", "top_p": 1.01})", "top_p"},
        BadBody{kText, R"({"prompt": "x", "top_k": -2})", "top_k"},
        BadBody{kText, R"({"prompt": "x", "min_p": 2})", "min_p"},
        BadBody{kText, R"({"prompt": "x", "seed": 9223372036854775808})", "seed"},
        BadBody{kText, R"({"prompt": "x", "seed": 1.5})", "seed"},
        BadBody{kText, R"({"prompt": "x", "stop": ""})", "stop"},
        BadBody{kText, R"({"prompt": "x", "stop": [1]})", "stop"},
        BadBody{kText, R"({"prompt": "x", "stop": 1})", "stop"},
        BadBody{
            kText,
            R"({"prompt": "x", "stop": ["1","2","3","4","5","6","7","8","9","1","2","3","4","5","6","7","8"]})",
            "stop"},
        BadBody{kText, R"({"prompt": "x", "n": 0})", "n"}, BadBody{kText, R"({"prompt": "x", "n": 9})", "n"},
        BadBody{kText, R"({"prompt": ["a", "b"], "n": 5})", "n"},
        BadBody{kText, R"({"prompt": "x", "logprobs": 21})", "logprobs"},
        BadBody{kText, R"({"prompt": "x", "logprobs": true})", "logprobs"},
        BadBody{kText, R"({"prompt": "x", "presence_penalty": 3})", "presence_penalty"},
        BadBody{kText, R"({"prompt": "x", "frequency_penalty": -3})", "frequency_penalty"},
        BadBody{kText, R"({"prompt": "x", "repetition_penalty": 0})", "repetition_penalty"},
        BadBody{kText, R"({"prompt": "x", "logit_bias": [1]})", "logit_bias"},
        BadBody{kText, R"({"prompt": "x", "logit_bias": {"258": 1}})", "logit_bias.258"},
        BadBody{kText, R"({"prompt": "x", "logit_bias": {"1x": 1}})", "logit_bias.1x"},
        BadBody{kText, R"({"prompt": "x", "logit_bias": {"1": 101}})", "logit_bias.1"},
        BadBody{kText, R"({"prompt": "x", "ignore_eos": 1})", "ignore_eos"},
        BadBody{kText, R"({"prompt": "x", "stream": "yes"})", "stream"},
        BadBody{kText, R"({"prompt": "x", "stream_options": {"include_usage": true}})", "stream_options"},
        BadBody{kText, R"({"prompt": "x", "stream": true, "stream_options": {"include_usage": 1}})",
                "stream_options.include_usage"},
        BadBody{kText, R"({"prompt": "x", "stream": true, "stream_options": {"chunks": 1}})",
                "stream_options.chunks"},
        BadBody{kText, R"({"prompt": "x", "lynx": true})", "lynx"},
        BadBody{kText, R"({"prompt": "x", "lynx": {"exact": "yes"}})", "lynx.exact"},
        BadBody{kText, R"({"prompt": "x", "lynx": {"experts": 3}})", "lynx.experts"},
        BadBody{kText, R"({"prompt": "x", "lynx": {"receipt": 1}})", "lynx.receipt"},
        BadBody{kText, R"({"prompt": "x", "stream": true, "lynx": {"receipt": true}})", "lynx.receipt"},
        BadBody{kText, R"({"prompt": "x", "slo_class": 1})", "slo_class"},
        BadBody{kText, R"({"prompt": "x", "cache_salt": 1})", "cache_salt"},
        BadBody{kText, R"({"prompt": "x", "cache_salt": ""})", "cache_salt"},
        BadBody{kText, kLongSalt.c_str(), "cache_salt"},
        BadBody{kText, R"({"prompt": "x", "model": 1})", "model"},
        BadBody{kText, R"({"prompt": "x", "echo": true})", "echo"},
        BadBody{kText, R"({"prompt": "x", "suffix": "y"})", "suffix"},
        BadBody{kText, R"({"prompt": "x", "best_of": 2})", "best_of"},
        BadBody{kText, R"({"prompt": "x", "max_token": 5})", "max_token"},
        BadBody{kText, R"({"prompt": "x", "messages": []})", "messages"}, BadBody{kChat, R"({})", "messages"},
        BadBody{kChat, R"({"messages": []})", "messages"},
        BadBody{kChat, R"({"messages": "hi"})", "messages"},
        BadBody{kChat, R"({"messages": ["hi"]})", "messages[0]"},
        BadBody{kChat, R"({"messages": [{"content": "x"}]})", "messages[0].role"},
        BadBody{kChat, R"({"messages": [{"role": "robot", "content": "x"}]})", "messages[0].role"},
        BadBody{kChat, R"({"messages": [{"role": "user"}]})", "messages[0].content"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
                "messages[0].content[0].type"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
                "messages[0].content[0]"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": "x", "mood": "good"}]})",
                "messages[0].mood"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": "x"}], "tools": [{}]})", "tools"},
        BadBody{
            kChat,
            R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}})",
            "response_format"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2})",
                "top_logprobs"},
        BadBody{kChat, R"({"messages": [{"role": "user", "content": "x"}], "prompt": "x"})", "prompt"}));

TEST(OpenAiApi, DeepNestingIsRefusedWithoutHarm) {
  const std::string deep(2'000'000, '[');
  ApiRequest out;
  EXPECT_TRUE(parse_api_request(ApiKind::kCompletion, deep, limits(), out));
  const std::string closed = R"({"prompt":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_TRUE(parse_api_request(ApiKind::kCompletion, closed, limits(), out));
}

}  // namespace
}  // namespace lynx
