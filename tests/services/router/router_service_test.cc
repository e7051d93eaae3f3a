// The router from socket to socket, HTTP in front and stub workers behind: what a request gets.
#include <gtest/gtest.h>

#include <limits>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

using nlohmann::json;

// Field report 8.
TEST(RouterService, MaxTokensGivesExactlyThatMany) {
  RouterRig rig;
  rig.add_pair();
  for (const int n : {1, 2, 3, 26}) {
    for (const bool stream : {false, true}) {
      json request = hello(n, stream);
      if (stream) request["stream_options"] = {{"include_usage", true}};
      const auto& reply = rig.post(request);
      rig.until_over(reply);
      ASSERT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.text().size(), static_cast<std::size_t>(n));
      EXPECT_EQ(reply.finish_reason(), "length");
      const json usage = stream ? reply.events.back()["usage"] : reply.reply()["usage"];
      EXPECT_EQ(usage["completion_tokens"], n);
      EXPECT_EQ(usage["prompt_tokens"], 5);
    }
  }
  EXPECT_TRUE(rig.all_idle());
}

TEST(RouterService, StreamAndWholeGiveTheSameText) {
  RouterRig rig;
  rig.add_pair();
  const std::string scripts[] = {"plain", "今日は晴れ🙂です", "half \xF0\x9F\x99",
                                 "",      "END first",        "x\xFFy END \xE4"};
  for (const auto& script : scripts) {
    rig.script(script);
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
      json request = hello(64);
      request["stop"] = {"END", "れ🙂"};
      if (std::string(path).find("chat") != std::string::npos) {
        request.erase("prompt");
        request["messages"] = {{{"role", "user"}, {"content", "hello"}}};
      }
      const auto& whole = rig.post(request, path);
      request["stream"] = true;
      const auto& streamed = rig.post(request, path);
      rig.until([&] { return whole.over && streamed.over; });
      EXPECT_EQ(whole.text(), streamed.text()) << script;
      EXPECT_EQ(whole.finish_reason(), "stop");
      EXPECT_EQ(streamed.finish_reason(), "stop");
      EXPECT_TRUE(streamed.done_event);
      EXPECT_EQ(whole.text().find("END"), std::string::npos);
    }
  }
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AStopStringEndsTheDecodeWorkersWorkToo) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks endless;  // does not come to its end by itself
  endless.on_token = [](std::uint64_t, std::uint32_t index) { return index > 500; };
  rig.add(proto::Role::DECODE, "d", nullptr, endless);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  json request = hello(1000);
  request["stop"] = "d";
  rig.script(std::string("abcd") + std::string(996, 'x'));
  const auto& reply = rig.post(request);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abc");
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, ChoicesOfSeveralPromptsComeBackInOrder) {
  RouterRig rig;
  rig.add_pair();
  const auto& reply = rig.post({{"prompt", {"a", "bc"}}, {"n", 2}, {"max_tokens", 3}});
  rig.until_over(reply);
  const auto choices = reply.reply()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], "abc");
  }
  EXPECT_EQ(reply.reply()["usage"]["prompt_tokens"], 3) << "each prompt counts once";
  EXPECT_EQ(reply.reply()["usage"]["completion_tokens"], 12);
}

TEST(RouterService, LogprobsComeInBothShapes) {
  RouterRig rig;
  rig.add_pair();
  const auto& text = rig.post({{"prompt", "x"}, {"max_tokens", 2}, {"logprobs", 1}});
  const auto& chat = rig.post({{"messages", {{{"role", "user"}, {"content", "x"}}}},
                               {"max_tokens", 2},
                               {"stream", true},
                               {"logprobs", true},
                               {"top_logprobs", 2}},
                              "/v1/chat/completions");
  rig.until([&] { return text.over && chat.over; });
  EXPECT_EQ(text.reply()["choices"][0]["logprobs"]["tokens"], json({"a", "b"}));
  std::vector<std::string> told;
  for (const auto& event : chat.events)
    if (event["choices"][0]["logprobs"].is_object())
      for (const auto& entry : event["choices"][0]["logprobs"]["content"]) told.push_back(entry["token"]);
  EXPECT_EQ(told, (std::vector<std::string>{"a", "b"}));
}

// Field report 14: a receipt says what company did.
// The first token is prefill's; token i of the others is told of as the stub says.
TEST(RouterService, AReceiptSumsWhatTheDecodeStepsTell) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) {
    options.receipt = [](std::uint32_t i) {
      return StepReceipt{.assignments = 8, .remapped = i, .router_mass = i == 2 ? 0.5F : 1, .batch = i};
    };
  });
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto told = json::parse(R"({"steps":4,"remapped_share":0.3125,
    "router_mass":{"mean":0.875,"worst_step":0.5},"batch":{"mean":2.5,"max":4}})");
  for (const bool stream : {false, true}) {
    const auto& reply = rig.post(hello_with_receipt(5, stream));
    rig.until_over(reply);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ((stream ? reply.events.back() : reply.reply())["usage"]["lynx"], told);
  }
  const auto& unasked = rig.post(hello(5));
  json twice = hello_with_receipt(5, false);
  twice["n"] = 2;
  const auto& choices = rig.post(twice);
  const auto& one = rig.post(hello_with_receipt(1, false));
  rig.until([&] { return unasked.over && choices.over && one.over; });
  EXPECT_FALSE(unasked.reply()["usage"].contains("lynx"));
  EXPECT_EQ(choices.reply()["usage"]["lynx"]["steps"], 8);
  EXPECT_EQ(choices.reply()["usage"]["lynx"]["remapped_share"], 0.3125);
  EXPECT_EQ(one.reply()["usage"]["lynx"]["steps"], 0);
  const auto& metrics = rig.get("/metrics");
  rig.until_over(metrics);
  const auto shows = [&](const char* line) { return metrics.body.find(line) != std::string::npos; };
  EXPECT_TRUE(shows("lynx_receipt_remapped_share_count{model=\"stub\",slo_class=\"standard\"} 4\n"))
      << metrics.body;
  EXPECT_TRUE(shows("lynx_receipt_remapped_share_sum{model=\"stub\",slo_class=\"standard\"} 1.25\n"));
}

TEST(RouterService, AReceiptThatCannotBeTrueIsLeftOut) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) {
    options.receipt = [](std::uint32_t i) {
      StepReceipt out{.assignments = 8, .remapped = 0, .router_mass = 1, .batch = 1};
      if (i == 1) out.router_mass = std::numeric_limits<float>::quiet_NaN();
      if (i == 2) out.remapped = 9;
      if (i == 3) out.batch = 0;
      return out;
    };
  });
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(hello_with_receipt(6, false));
  rig.until_over(reply);
  EXPECT_EQ(reply.reply()["usage"]["lynx"]["steps"], 2);
  EXPECT_EQ(reply.reply()["usage"]["lynx"]["router_mass"]["mean"], 1);
}

TEST(RouterService, BadRequestsNameTheField) {
  RouterRig rig;
  rig.add_pair();
  const auto expect = [&](const json& request, int status, const std::string& param) {
    const auto& reply = rig.post(request);
    rig.until_over(reply);
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.reply()["error"]["param"], param);
  };
  expect({{"prompt", "x"}, {"temprature", 1}}, 400, "temprature");
  expect({{"prompt", "x"}, {"max_tokens", 2048}}, 400, "max_tokens");
  expect({{"prompt", std::string(3000, 'x')}}, 400, "prompt");
  expect({{"prompt", "x"}, {"slo_class", "gold"}}, 400, "slo_class");
  expect({{"prompt", "x"}, {"model", "gpt-4"}}, 404, "model");
  const auto& broken = rig.post_raw("{\"prompt\":", "/v1/completions");
  const auto& nowhere = rig.post_raw("{}", "/v1/embeddings");
  rig.until([&] { return broken.over && nowhere.over; });
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(nowhere.status, 404);
  EXPECT_TRUE(rig.all_idle());
}

}  // namespace
}  // namespace lynx::testing
