// What the router has around a request: keys, whose cache it may use, the other paths, what metrics tell.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <utility>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(RouterService, ApiKeysGuardTheApiAndNothingElse) {
  const std::string keys = ::testing::TempDir() + "/router_keys";
  std::ofstream(keys) << "# ours\n  sesame\t\n\nopen\r\n";
  RouterRig rig([&](RouterConfig& config) { config.api_keys_file = keys; });
  rig.add_pair();
  const auto status = [&](const std::string& header) {
    const auto& reply = rig.post_raw(hello(1).dump(), "/v1/completions", {{"authorization", header}});
    rig.until_over(reply);
    return reply.status;
  };
  EXPECT_EQ(status("Bearer sesame"), 200);
  EXPECT_EQ(status("Bearer open"), 200);
  EXPECT_EQ(status("Bearer sesam"), 401);
  EXPECT_EQ(status("Bearer # ours"), 401);
  EXPECT_EQ(status("sesame"), 401);
  const auto& health = rig.get("/health/ready");
  rig.until_over(health);
  EXPECT_EQ(health.status, 200);
}

// Which scope each request's Prefill names.
class CacheScopes {
 public:
  explicit CacheScopes(const std::function<void(RouterConfig&)>& change) : rig_(change) {
    StubWorker::Hooks listens;
    listens.on_prefill = [this](proto::Prefill::Reader prefill) {
      last_ = prefill.getCacheSalt();
      return false;
    };
    rig_.add(proto::Role::PREFILL, "p", nullptr, listens);
    rig_.add(proto::Role::DECODE, "d");
    rig_.until([&] { return rig_.router->dispatcher().ready(); });
  }
  std::uint64_t of(const std::string& key, const std::string& salt = "") {
    json request = hello(1);
    if (!salt.empty()) request["cache_salt"] = salt;
    const auto& reply =
        rig_.post_raw(request.dump(), "/v1/completions", {{"authorization", "Bearer " + key}});
    rig_.until_over(reply);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return last_;
  }

 private:
  RouterRig rig_;
  std::uint64_t last_ = 0;
};

TEST(RouterService, EachApiKeyHasAPrefixCacheOfItsOwn) {
  const std::string keys = ::testing::TempDir() + "/router_cache_keys";
  std::ofstream(keys) << "sesame\nopen\n";
  CacheScopes scopes([&](RouterConfig& config) { config.api_keys_file = keys; });
  const std::uint64_t sesame = scopes.of("sesame");
  EXPECT_NE(sesame, 0U);
  EXPECT_EQ(scopes.of("sesame"), sesame);
  EXPECT_NE(scopes.of("open"), sesame);
  EXPECT_NE(scopes.of("sesame", "tenant 7"), sesame) << "a request may narrow it";
  EXPECT_NE(scopes.of("sesame", "tenant 7"), scopes.of("open", "tenant 7")) << "and not leave it";

  CacheScopes shared([&](RouterConfig& config) {
    config.api_keys_file = keys;
    config.prefix_cache_scope = "all";
  });
  EXPECT_EQ(shared.of("sesame"), 0U);
  EXPECT_EQ(shared.of("open", "tenant 7"), shared.of("sesame", "tenant 7"));
  EXPECT_NE(shared.of("open", "tenant 7"), 0U);

  CacheScopes open(nullptr);
  EXPECT_EQ(open.of("whatever"), 0U) << "without keys, what a client sends as one says nothing";
}

TEST(RouterService, ModelsVersionAndMetricsAnswer) {
  RouterRig rig;
  rig.add_pair();
  rig.until_over(rig.post(hello(5, true)));
  const auto& models = rig.get("/v1/models");
  const auto& version = rig.get("/version");
  const auto& metrics = rig.get("/metrics");
  rig.until([&] { return models.over && version.over && metrics.over; });
  EXPECT_EQ(models.reply()["data"][0]["id"], "stub");
  EXPECT_EQ(models.reply()["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(version.reply()["service"], "router");
  for (const char* line :
       {"lynx_ttft_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_itl_seconds_count{model=\"stub\",slo_class=\"standard\"} 4",
        "lynx_tpot_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_e2e_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_queue_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_requests_total{model=\"stub\",code=\"200\"} 1",
        "lynx_slo_requests_total{model=\"stub\",met=\"true\",objective=\"all\",slo_class=\"standard\"} 1",
        "lynx_selected_total{model=\"stub\",policy=\"least_loaded\",worker=\"d\"} 1",
        "lynx_kv_transfer_seconds_count{model=\"stub\"} 1",
        "lynx_queue_depth{model=\"stub\",slo_class=\"standard\"} 0", "lynx_retries_total{model=\"stub\"} 0",
        "lynx_resumes_total{model=\"stub\"} 0",
        "lynx_slo_objective_seconds{model=\"stub\",objective=\"ttft\",slo_class=\"standard\"} 2"})
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << "\n" << metrics.body;
}

// TTFT holds the wait for a worker and the prefill, ITL what lies between the first token and the next: the
// transfer, the decode queue. Nothing is left out, and nothing is there that the client did not wait for.
// Field report 16.
TEST(RouterService, LatenciesAreMeasuredWhereTheClientSeesThem) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p", [](StubOptions& o) { o.prefill_time = milliseconds(60); });
  StubWorker* decode = nullptr;
  bool turned_away = false;
  StubWorker::Hooks full_at_first;
  full_at_first.on_reserve = [&](proto::Reserve::Reader reserve) {
    if (std::exchange(turned_away, true)) return false;
    decode->send_busy(reserve.getRequest(), 50);
    return true;
  };
  const ApiExchange* reply = nullptr;
  std::optional<std::chrono::steady_clock::time_point> first_seen;
  full_at_first.on_token = [&](std::uint64_t,
                               std::uint32_t) {  // not for 40 ms after the client has the first
    if (reply == nullptr || reply->events.empty()) return true;
    if (!first_seen) first_seen = std::chrono::steady_clock::now();
    return std::chrono::steady_clock::now() - *first_seen < milliseconds(40);
  };
  decode = &rig.add(proto::Role::DECODE, "d", nullptr, full_at_first);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto sent = std::chrono::steady_clock::now();
  reply = &rig.post(hello(3, true));
  rig.until_over(*reply);
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - sent).count();
  const auto& metrics = rig.get("/metrics");
  rig.until_over(metrics);
  const auto sum = [&](const std::string& name) {
    const std::string line = "lynx_" + name + "_seconds_sum{model=\"stub\",slo_class=\"standard\"} ";
    const std::size_t at = metrics.body.find(line);
    return at == std::string::npos ? -1.0 : std::stod(metrics.body.substr(at + line.size()));
  };
  EXPECT_GE(sum("ttft"), 0.110);
  EXPECT_GE(sum("itl"), 0.040);
  EXPECT_GE(sum("e2e") + 1e-6, sum("ttft") + sum("itl"));
  EXPECT_LE(sum("e2e"), waited);
}

}  // namespace
}  // namespace lynx::testing
