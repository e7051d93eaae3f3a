// The router's page and the figures that feed it.
#include "services/router/live_page.h"

#include <gtest/gtest.h>

#include "services/router/recent_histogram.h"
#include "tests/services/router/router_rig.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

json overview(RouterRig& rig) {
  const auto& reply = rig.get("/debug/overview");
  rig.until_over(reply);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.reply();
}

// Asks again until the overview, which looks once a second, has seen what is waited for.
json overview_with(RouterRig& rig, const std::function<bool(const json&)>& seen) {
  json last;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < give_up) {
    last = overview(rig);
    if (seen(last)) return last;
    rig.run_for(milliseconds(100));
  }
  ADD_FAILURE() << "the overview never came to it: " << last.dump();
  return last;
}

TEST(LivePage, IsOneDocumentThatLoadsNothingElse) {
  RouterRig rig;
  const auto& page = rig.get("/");
  rig.until_over(page);
  ASSERT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.headers.at("content-security-policy").find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.body.find("</html>"), std::string::npos);
  EXPECT_EQ(page.body.find("@LIVE_PAGE"), std::string::npos) << "the build left a part out";
  for (const char* loads : {"<script src", "<link rel=\"stylesheet", "<img", "@import", "url("})
    EXPECT_EQ(page.body.find(loads), std::string::npos) << loads;
}

TEST(LivePage, IsOffBeyondLoopbackUnlessAskedFor) {
  EXPECT_TRUE(serves_live_page("auto", "127.0.0.1"));
  EXPECT_TRUE(serves_live_page("auto", "::1"));
  EXPECT_FALSE(serves_live_page("auto", "0.0.0.0"));
  EXPECT_FALSE(serves_live_page("auto", "10.0.0.7"));
  EXPECT_TRUE(serves_live_page("on", "0.0.0.0"));
  EXPECT_FALSE(serves_live_page("off", "127.0.0.1"));

  RouterRig rig([](RouterConfig& config) { config.live_page = "off"; });
  for (const char* path : {"/", "/debug/overview"}) {
    const auto& reply = rig.get(path);
    rig.until_over(reply);
    EXPECT_EQ(reply.status, 404) << path;
  }
  RouterConfig wrong;
  wrong.model_path = "m";
  wrong.live_page = "maybe";
  EXPECT_THROW(wrong.validate(), ConfigError);
}

TEST(LivePage, OverviewTellsLatencyAgainstTheObjective) {
  RouterRig rig([](RouterConfig& config) {  // objectives that any machine meets
    config.slo_classes[0].ttft = config.slo_classes[0].tpot = milliseconds(50'000);
  });
  rig.add_pair();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    const auto& reply = rig.post({{"prompt", "hello"}, {"max_tokens", 5}, {"slo_class", "interactive"}});
    rig.until_over(reply);
    ASSERT_EQ(reply.status, 200);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const json seen = overview_with(rig, [](const json& o) { return o["classes"][0]["judged"] == 3; });
  const json& fast = seen["classes"][0];
  EXPECT_EQ(fast["name"], "interactive");
  EXPECT_EQ(fast["ttft_objective_ms"], 50'000);
  EXPECT_EQ(fast["attainment"], 1);
  EXPECT_GT(fast["ttft_p99_ms"], 0);
  EXPECT_GT(fast["tpot_p50_ms"], 0);
  EXPECT_LT(fast["tpot_p50_ms"], took.count());
  const json& idle = seen["classes"][2];
  EXPECT_EQ(idle["judged"], 0);
  EXPECT_TRUE(idle["attainment"].is_null()) << "nothing is not 0 %";
  EXPECT_TRUE(idle["ttft_p50_ms"].is_null());
  double tokens = 0;
  for (const json& value : seen["history"]["tokens_per_s"]) tokens += value.get<double>();
  EXPECT_EQ(tokens, 15);
  EXPECT_EQ(seen["in_flight"], 0);
}

TEST(LivePage, OverviewTellsWhatHeartbeatsSay) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  rig.add(proto::Role::DECODE, "d-b", [](StubOptions& o) {
    o.routed_experts = 38.5F;
    o.activated_experts = 22.25F;
    o.total_blocks = 512;
  });
  const json seen = overview_with(rig, [](const json& o) {
    const json& curve = o["history"]["activated"];
    return o["workers"].size() == 2 && !curve.empty() && curve.back() == 22.25;
  });
  EXPECT_EQ(seen["ready"], true);
  const json& decode = seen["workers"][0]["role"] == "decode" ? seen["workers"][0] : seen["workers"][1];
  EXPECT_EQ(decode["name"], "d-b");
  EXPECT_EQ(decode["state"], "serving");
  EXPECT_EQ(decode["routed_experts"], 38.5);
  EXPECT_EQ(decode["free_blocks"], 512);
  EXPECT_EQ(decode["total_blocks"], 512);
  EXPECT_EQ(seen["history"]["routed"].back(), 38.5);
}

TEST(RecentHistogram, LooksBackOverTheWindowAlone) {
  MetricsRegistry registry;
  auto& source = registry.histogram("x", "X.", {1, 2, 4});
  source.Observe(3);  // before the watch began
  RecentHistogram recent(source, 2);
  EXPECT_EQ(recent.count(), 0u);
  EXPECT_EQ(recent.quantile(0.5), 0);
  for (int i = 0; i < 10; ++i) source.Observe(1.5);
  recent.snapshot();
  EXPECT_EQ(recent.count(), 10u);
  EXPECT_DOUBLE_EQ(recent.quantile(0.5), 1.5) << "half way through the bucket from 1 to 2";
  source.Observe(100);
  recent.snapshot();
  EXPECT_EQ(recent.count(), 11u);
  EXPECT_EQ(recent.last_count(), 1u);
  EXPECT_DOUBLE_EQ(recent.quantile(1), 4) << "beyond the last bound";
  recent.snapshot();
  recent.snapshot();
  EXPECT_EQ(recent.count(), 0u) << "all of it is older than the window";
}

}  // namespace
}  // namespace lynx::testing
