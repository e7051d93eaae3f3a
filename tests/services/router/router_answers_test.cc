// What a router answers where there is nothing to serve: each says what would be right.
#include <gtest/gtest.h>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

TEST(RouterAnswers, AWrongMethodIsToldTheRightOnes) {
  RouterRig rig;
  const auto& completions = rig.get("/v1/completions");
  rig.until_over(completions);
  EXPECT_EQ(completions.status, 405);
  EXPECT_EQ(completions.headers.at("allow"), "POST");
  EXPECT_EQ(completions.error_code(), "method_not_allowed");
  const auto& models = rig.post_raw("{}", "/v1/models");
  rig.until_over(models);
  EXPECT_EQ(models.status, 405);
  EXPECT_EQ(models.headers.at("allow"), "GET, HEAD");
  const auto& nowhere = rig.get("/v1/completion");
  rig.until_over(nowhere);
  EXPECT_EQ(nowhere.status, 404);
}

TEST(RouterAnswers, AModelIsAlsoFoundByItsName) {
  RouterRig rig;
  const auto& all = rig.get("/v1/models");
  rig.until_over(all);
  const auto entry = all.reply()["data"][0];
  EXPECT_FALSE(entry.contains("max_model_len")) << "no worker is there to say";
  const auto& one = rig.get("/v1/models/" + entry["id"].get<std::string>());
  rig.until_over(one);
  EXPECT_EQ(one.status, 200);
  EXPECT_EQ(one.reply(), entry);
  const auto& other = rig.get("/v1/models/gpt-9");
  rig.until_over(other);
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.error_code(), "model_not_found");
}

TEST(RouterAnswers, APageThatIsOffNamesItsSetting) {
  RouterRig rig([](RouterConfig& config) { config.live_page = "off"; });
  for (const char* path : {"/", "/debug/overview"}) {
    const auto& reply = rig.get(path);
    rig.until_over(reply);
    EXPECT_EQ(reply.status, 404);
    EXPECT_NE(reply.body.find("http.live_page"), std::string::npos) << reply.body;
  }
}

TEST(RouterAnswers, APromptThatFillsTheContextLeavesNoRoom) {
  RouterRig rig;
  rig.add_pair();
  const auto message = [&](std::size_t tokens) {
    const auto& reply = rig.post({{"prompt", std::vector<int>(tokens, 65)}});
    rig.until_over(reply);
    EXPECT_EQ(reply.status, 400);
    return reply.reply()["error"]["message"].get<std::string>();
  };
  EXPECT_NE(message(2048).find("no room for an answer"), std::string::npos);
  EXPECT_NE(message(2049).find("longer than the context of 2048"), std::string::npos);
}

TEST(RouterAnswers, APageOfAnAllowedOriginMayReadEveryAnswerOfTheApi) {
  RouterRig rig([](RouterConfig& config) { config.cors_origins = {"https://chat.example"}; });
  for (const char* path : {"/v1/models", "/v1/nothing"}) {
    const auto& reply = rig.get(path, {{"origin", "https://chat.example"}});
    rig.until_over(reply);
    EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "https://chat.example") << path;
  }
  const auto& other = rig.get("/v1/models", {{"origin", "https://else.example"}});
  rig.until_over(other);
  EXPECT_FALSE(other.headers.contains("access-control-allow-origin"));
}

TEST(RouterAnswers, ARouterThatDrainsSaysSo) {
  RouterRig rig([](RouterConfig& config) { config.shutdown_grace = std::chrono::seconds(5); });
  rig.add_pair();
  bool stopped = false;
  rig.router->drain([&] { stopped = true; });
  const auto& reply = rig.post({{"prompt", "hello"}});
  rig.until_over(reply);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.error_code(), "draining");
}

}  // namespace
}  // namespace lynx::testing
