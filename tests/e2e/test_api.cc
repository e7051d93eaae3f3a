// The OpenAI API over real workers and the shipped model: what a client may rely on.
#include <gtest/gtest.h>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

using nlohmann::json;

class Api : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ClusterOptions options;
    options.router_flags = {"--slo.standard.queue_timeout", "10m", "--slo.standard.deadline", "10m"};
    cluster_ = new Cluster(options);
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  static std::uint16_t port() { return cluster_->api_port(); }

  static json completion(const json& extra) {
    json body = {
        {"model", "model"}, {"prompt", "The quick brown fox"}, {"max_tokens", 16}, {"temperature", 0}};
    body.update(extra);
    return body;
  }

  static Cluster* cluster_;
};

Cluster* Api::cluster_ = nullptr;

TEST_F(Api, ListsTheModel) {
  const ApiReply reply = get(port(), "/v1/models");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["data"][0]["id"], "model");
}

TEST_F(Api, StreamAndNonStreamGiveTheSameText) {
  for (const char* prompt : {"Q: 12 + 30 = ?\nA: ", "def main():\n", "永和九年", "🙂🙂", "x"}) {
    const ApiReply whole =
        post(port(), "/v1/completions", completion({{"prompt", prompt}, {"ignore_eos", true}}));
    ASSERT_EQ(whole.status, 200) << whole.body;
    StreamCall call;
    call.body = completion({{"prompt", prompt}, {"ignore_eos", true}, {"stream", true}});
    const auto stream = run_streams(port(), {call}).front();
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.text, whole.json()["choices"][0]["text"].get<std::string>());
    EXPECT_EQ(whole.json()["usage"]["completion_tokens"], 16);
    EXPECT_EQ(stream.finish_reason, "length");
  }
}

// Field report 8.
TEST_F(Api, ExactlyAsManyTokensAsAsked) {
  for (int n : {1, 2, 3, 17}) {
    const ApiReply reply =
        post(port(), "/v1/completions", completion({{"max_tokens", n}, {"ignore_eos", true}}));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["usage"]["completion_tokens"], n);
    EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "length");
  }
}

// Field report 8.
TEST_F(Api, StopStringsCountFromTheFirstTokenOn) {
  const ApiReply whole = post(port(), "/v1/completions", completion({{"ignore_eos", true}, {"logprobs", 0}}));
  const auto tokens = whole.json()["choices"][0]["logprobs"]["tokens"].get<std::vector<std::string>>();
  const std::string text = whole.json()["choices"][0]["text"];
  ASSERT_TRUE(text.starts_with(tokens[0]));
  for (const std::string& stop : tokens) {
    const std::size_t cut = text.find(stop);
    if (cut == std::string::npos) continue;  // a special token, or half a character: not in the text
    const ApiReply reply =
        post(port(), "/v1/completions", completion({{"ignore_eos", true}, {"stop", stop}}));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["choices"][0]["text"].get<std::string>(), text.substr(0, cut));
    EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "stop") << stop;
  }
}

TEST_F(Api, SeedsRepeatAndChoicesDiffer) {
  const json body = completion({{"temperature", 1.0}, {"seed", 5}, {"n", 4}, {"ignore_eos", true}});
  const ApiReply first = post(port(), "/v1/completions", body);
  ASSERT_EQ(first.status, 200) << first.body;
  const json choices = first.json()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  EXPECT_NE(choices[0]["text"], choices[1]["text"]);
}

TEST_F(Api, ChatAnswersAndEndsByItself) {
  const json body = {{"model", "model"},
                     {"messages", {{{"role", "user"}, {"content", "Hello!"}}}},
                     {"max_tokens", 200},
                     {"temperature", 0}};
  const ApiReply reply = post(port(), "/v1/chat/completions", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["choices"][0]["message"]["role"], "assistant");
  EXPECT_FALSE(reply.json()["choices"][0]["message"]["content"].get<std::string>().empty());
  EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "stop");
}

TEST_F(Api, BadRequestsNameTheField) {
  const std::vector<std::pair<json, std::string>> bad = {
      {completion({{"max_tokens", -1}}), "max_tokens"},
      {completion({{"temperature", "hot"}}), "temperature"},
      {completion({{"no_such_thing", 1}}), "no_such_thing"},
      {completion({{"logit_bias", {{"999999", 1}}}}), "logit_bias"},
      {completion({{"prompt", json::array({1, 2, 99999999})}}), "prompt"},
      {completion({{"max_tokens", 1'000'000}}), "max_tokens"},
  };
  for (const auto& [body, field] : bad) {
    const ApiReply reply = post(port(), "/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body.dump();
    const std::string param = reply.json()["error"].value("param", "");
    EXPECT_TRUE(param.starts_with(field)) << reply.body;
  }
}

// Alone, a request keeps everything; in company under lynx, what its steps tell lies within bounds.
TEST_F(Api, ReceiptsTellWhatCompanyDid) {
  const json asked = {{"ignore_eos", true}, {"lynx", {{"receipt", true}}}};
  const ApiReply alone = post(port(), "/v1/completions", completion(asked));
  ASSERT_EQ(alone.status, 200) << alone.body;
  EXPECT_EQ(alone.json()["usage"]["lynx"], json::parse(R"({"steps":15,"remapped_share":0.0,
    "router_mass":{"mean":1.0,"worst_step":1.0},"batch":{"mean":1.0,"max":1}})"))
      << "of 16 tokens the first is prefill's";

  json together = completion(asked);
  together.update({{"n", 12}, {"max_tokens", 40}, {"temperature", 1.0}, {"seed", 3}});
  const ApiReply reply = post(port(), "/v1/completions", together);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json told = reply.json()["usage"]["lynx"];
  EXPECT_EQ(told["steps"], 12 * 39);
  EXPECT_GT(told["remapped_share"], 0);
  EXPECT_LT(told["remapped_share"], 0.5);
  EXPECT_GT(told["router_mass"]["worst_step"], 0.5);
  EXPECT_GE(told["router_mass"]["mean"], told["router_mass"]["worst_step"]);
  EXPECT_LT(told["router_mass"]["mean"], 1);
  EXPECT_GT(told["batch"]["mean"], 1);
  EXPECT_LE(told["batch"]["max"], 12);
  EXPECT_GE(told["batch"]["max"], told["batch"]["mean"]);
}

TEST_F(Api, DecodeRemapsAndPrefillNever) {
  std::vector<StreamCall> calls;
  for (int i = 0; i < 16; ++i) {
    StreamCall call;
    call.body = completion({{"prompt", std::string(1, static_cast<char>('a' + i)) + " story about a ship:"},
                            {"max_tokens", 40},
                            {"ignore_eos", true},
                            {"stream", true}});
    calls.push_back(call);
  }
  for (const auto& stream : run_streams(port(), calls))
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
  double remapped = 0;
  for (int i : {0, 1}) remapped += Cluster::metric(cluster_->decode(i), "lynx_remapped_assignments_total");
  EXPECT_GT(remapped, 0);
  EXPECT_EQ(Cluster::metric(cluster_->prefill(0), "lynx_remapped_assignments_total"), 0);
  EXPECT_TRUE(cluster_->all_free(kPatience));
}

}  // namespace
}  // namespace lynx::testing
