// What goes back to the client, byte by byte valid JSON in OpenAI's shapes.
#include "services/router/openai_reply.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "loadtest/stub/byte_tokenizer.h"
#include "services/router/json_text.h"
#include "services/router/logprob_text.h"

namespace lynx {
namespace {

using nlohmann::json;

std::string written(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonText, EscapesWhatJsonAsksFor) {
  EXPECT_EQ(written("a\"b\\c\n\t\r\x01"), R"("a\"b\\c\n\t\r\u0001")");
  EXPECT_EQ(json::parse(written("日本 🙂 \x7F")), "日本 🙂 \x7F");
}

TEST(JsonText, IsValidWhateverTheBytes) {
  std::string every_pair;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      every_pair = {static_cast<char>(a), static_cast<char>(b), 'x'};
      EXPECT_TRUE(json::accept(written(every_pair))) << a << " " << b;
    }
  EXPECT_EQ(json::parse(written("\xF0\x9F\x99")), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(json::parse(written("\xED\xA0\x80")), "\uFFFD\uFFFD\uFFFD") << "a surrogate is no character";
}

TEST(JsonText, NumbersStayNumbers) {
  std::string out;
  append_json_number(out, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(json::parse(out), -9999.0);
  out.clear();
  append_json_number(out, -0.25F);
  EXPECT_EQ(json::parse(out), -0.25);
  out.clear();
  append_json_number(out, std::numeric_limits<float>::min());
  EXPECT_TRUE(json::accept(out)) << out;
}

json event(const std::string& text) {
  EXPECT_TRUE(text.starts_with("data: "));
  EXPECT_TRUE(text.ends_with("\n\n"));
  return json::parse(text.substr(6));
}

const ReplyHead kTextHead{ApiKind::kCompletion, "cmpl-1", "m", 7};
const ReplyHead kChatHead{ApiKind::kChat, "chatcmpl-1", "m", 7};

TEST(StreamReply, CompletionChunks) {
  const StreamReply reply(kTextHead, false);
  std::string out;
  reply.piece(out, {1, "hi", "", ""});
  EXPECT_EQ(event(out),
            json::parse(R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[
    {"index":1,"text":"hi","logprobs":null,"finish_reason":null}]})"));
  out.clear();
  reply.piece(out, {0, "", "length", R"({"tokens":[]})"});
  EXPECT_EQ(event(out)["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(event(out)["choices"][0]["logprobs"], json::parse(R"({"tokens":[]})"));
}

TEST(StreamReply, ChatChunksAndUsage) {
  const StreamReply reply(kChatHead, true);
  std::string out;
  reply.role(out, 0);
  EXPECT_EQ(event(out)["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_TRUE(event(out)["usage"].is_null());
  EXPECT_TRUE(event(out).contains("usage"));
  out.clear();
  reply.piece(out, {0, "hi", "stop", ""});
  EXPECT_EQ(event(out)["object"], "chat.completion.chunk");
  EXPECT_EQ(event(out)["choices"][0]["delta"]["content"], "hi");
  out.clear();
  reply.usage(out, {3, 4});
  EXPECT_EQ(event(out)["usage"],
            json::parse(R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7})"));
  EXPECT_TRUE(event(out)["choices"].empty());
}

TEST(WholeReply, UsageWithAReceipt) {
  Usage usage{2, 5};
  usage.receipt.emplace();
  usage.receipt->add(StepReceipt{.assignments = 8, .remapped = 2, .router_mass = 0.5F, .batch = 3});
  usage.receipt->add(StepReceipt{.assignments = 8, .remapped = 0, .router_mass = 1, .batch = 6});
  const auto told =
      json::parse(R"({"prompt_tokens":2,"completion_tokens":5,"total_tokens":7,"lynx":{"steps":2,
    "remapped_share":0.125,"router_mass":{"mean":0.75,"worst_step":0.5},"batch":{"mean":4.5,"max":6}}})");
  EXPECT_EQ(json::parse(whole_reply(kTextHead, {{0, "a", "stop", ""}}, usage))["usage"], told);
  std::string out;
  StreamReply(kChatHead, true).usage(out, usage);
  EXPECT_EQ(event(out)["usage"], told);
}

TEST(WholeReply, BothShapes) {
  const auto text =
      json::parse(whole_reply(kTextHead, {{0, "a\n", "stop", ""}, {1, "b", "length", ""}}, {2, 5}));
  EXPECT_EQ(text["object"], "text_completion");
  EXPECT_EQ(text["choices"][1]["text"], "b");
  EXPECT_EQ(text["usage"]["total_tokens"], 7);
  const auto chat = json::parse(whole_reply(kChatHead, {{0, "a", "stop", ""}}, {2, 5}));
  EXPECT_EQ(chat["object"], "chat.completion");
  EXPECT_EQ(chat["choices"][0]["message"], json::parse(R"({"role":"assistant","content":"a"})"));
}

TEST(LogprobText, BothShapes) {
  const auto tokenizer = Tokenizer::from_json(byte_tokenizer_json(), "bytes");
  const GeneratedToken token{'a', 0, TokenFinish::kNone, -0.5F, {{'a', -0.5F}, {0xFF, -1.5F}}};
  LogprobText chat(ApiKind::kChat, tokenizer, 2);
  chat.push(token);
  chat.push(token);
  const auto content = json::parse(chat.take())["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["token"], "a");
  EXPECT_EQ(content[0]["bytes"], json::array({97}));
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "\uFFFD");
  EXPECT_EQ(content[0]["top_logprobs"][1]["bytes"], json::array({255}));
  EXPECT_TRUE(json::parse(chat.take())["content"].empty()) << "each token is told once";

  LogprobText text(ApiKind::kCompletion, tokenizer, 1);
  text.push(token);
  text.push({'b', 1, TokenFinish::kNone, -2, {{'a', -0.5F}}});
  EXPECT_EQ(json::parse(text.take()), json::parse(R"({"tokens":["a","b"],"token_logprobs":[-0.5,-2],
    "top_logprobs":[{"a":-0.5},{"a":-0.5,"b":-2}],"text_offset":[0,1]})"));
}

}  // namespace
}  // namespace lynx
