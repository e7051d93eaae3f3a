#include "services/router/router_config.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lynx {
namespace {

RouterConfig from_yaml(const std::string& text) {
  RouterConfig config;
  ConfigFields fields;
  config.describe(fields);
  read_yaml_text(text, "router.yaml", fields);
  return config;
}

void expect_refused(const std::string& yaml, const std::string& field) {
  try {
    from_yaml("model: {path: m}\n" + yaml).validate();
    ADD_FAILURE() << yaml << " was accepted";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find(field), std::string::npos) << e.what();
  }
}

TEST(RouterConfig, ReadsNestedSections) {
  const auto config = from_yaml(
      "model: {path: /models/tiny/}\nhttp: {port: 9000}\nslo:\n  interactive: {ttft: 250ms, queue_limit: "
      "64}\n"
      "routing: {policy: round_robin}\n");
  config.validate();
  EXPECT_EQ(config.http_port, 9000);
  EXPECT_EQ(config.served_model(), "tiny");
  EXPECT_EQ(config.slo_classes[0].ttft, std::chrono::milliseconds(250));
  EXPECT_EQ(config.slo_classes[0].queue_limit, 64U);
  EXPECT_EQ(config.dispatch().workers.policy, RoutingPolicy{round_robin});
}

TEST(RouterConfig, RefusesWhatCannotWork) {
  expect_refused("http: {prot: 1}", "http.prot");
  expect_refused("routing: {policy: random}", "routing.policy");
  expect_refused("routing: {prefill_slots: 0}", "routing.prefill_slots");
  expect_refused("routing: {decode_overcommit: 0.5}", "routing.decode_overcommit");
  expect_refused("prefix_cache: {scope: tenant}", "prefix_cache.scope");
  expect_refused("slo: {default_class: gold}", "slo.default_class");
  expect_refused("slo: {batch: {deadline: 0ms}}", "slo.batch.deadline");
  expect_refused("slo: {batch: {queue_limit: 1}}", "slo.batch.queue_limit");
  expect_refused("http: {tls_key_file: key.pem}", "http.tls_key_file");
  expect_refused("http: {cors_origins: [chat.example]}", "http.cors_origins");
  expect_refused("http: {cors_origins: [\"https://chat.example/\"]}", "http.cors_origins");
  EXPECT_THROW(from_yaml("").validate(), ConfigError) << "a model is needed";
}

TEST(RouterConfig, AnOpenControlPortNeedsASecret) {
  unsetenv("LYNX_CLUSTER_SECRET");
  RouterConfig config = from_yaml("model: {path: m}\ncontrol: {host: 0.0.0.0}\n");
  EXPECT_THROW(cluster_secret(config), ConfigError);
  setenv("LYNX_CLUSTER_SECRET", "fifteen letters", 1);
  EXPECT_THROW(cluster_secret(config), ConfigError) << "too short for an open port";
  setenv("LYNX_CLUSTER_SECRET", "sixteen letters!", 1);
  EXPECT_EQ(cluster_secret(config), "sixteen letters!");
  unsetenv("LYNX_CLUSTER_SECRET");
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    config.control_host = host;
    EXPECT_EQ(cluster_secret(config), "");
  }
  config.secret_file = "/nonexistent";
  EXPECT_THROW(cluster_secret(config), ConfigError);
}

}  // namespace
}  // namespace lynx
