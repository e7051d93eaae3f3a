#include "services/router/router_config.h"

#include <algorithm>

#include "common/config/field_checks.h"
#include "common/config/model_folder.h"
#include "common/config/shared_secret.h"
#include "common/net/cors.h"

namespace lynx {
namespace {

constexpr std::size_t kShortestSecret = 16;  // beyond loopback

void check_class(const SloClass& slo_class, std::uint32_t max_choices) {
  const std::string at = "slo." + slo_class.name + ".";
  for (const auto& [name, value] : {std::pair{"ttft", slo_class.ttft},
                                    {"tpot", slo_class.tpot},
                                    {"deadline", slo_class.deadline},
                                    {"queue_timeout", slo_class.queue_timeout}})
    check_field(value.count() > 0, at + name, "must be above 0");
  check_field(slo_class.queue_limit >= max_choices, at + "queue_limit",
              "must be at least limits.max_choices");
}

}  // namespace

void RouterConfig::describe(ConfigFields& f) {
  f.section("");
  f.field("log_level", &log_level, "trace, debug, info, warning, error or off");
  f.field("shutdown_grace", &shutdown_grace, "how long requests may go on after SIGTERM");
  f.section("model");
  f.field("path", &model_path, "model folder: tokenizer.json, tokenizer_config.json");
  f.field("name", &model_name, "name in the API; empty = the folder's name");
  f.section("http");
  f.field("host", &http_host, "address of the API");
  f.field("port", &http_port, "port of the API");
  f.field("max_body_bytes", &http_max_body_bytes, "largest request body");
  f.field("max_connections", &http_max_connections, "most clients at once");
  f.field("live_page", &live_page, "serve the page / : on, off, or auto = on a loopback host alone");
  f.field(
      "cors_origins", &cors_origins,
      "origins whose pages may use /v1 from a browser, as https://chat.example; * = every one; empty = none");
  f.field("api_keys_file", &api_keys_file, "API keys, one a line; empty = none asked");
  f.field("tls_certificate_file", &tls_certificate_file, "PEM certificate chain; empty = plain HTTP");
  f.field("tls_key_file", &tls_key_file, "PEM private key of the certificate");
  f.section("control");
  f.field("host", &control_host, "address workers connect to");
  f.field("port", &control_port, "port workers connect to");
  f.field("secret_file", &secret_file, "shared secret of the cluster; empty = $LYNX_CLUSTER_SECRET");
  f.field("heartbeat_timeout", &heartbeat_timeout, "a worker unheard for so long counts as lost");
  f.section("routing");
  f.field("policy", &policy, "round_robin, least_loaded or expert_affinity");
  f.field("prefill_slots", &prefill_slots, "requests under way per prefill worker");
  f.field("decode_overcommit", &decode_overcommit, "sequences per decode worker, in units of its batch");
  f.field(
      "mixed_fingerprints", &mixed_fingerprints,
      "let workers in that fit none of the other role: for a rolling upgrade to another model or KV layout");
  f.field("max_retries", &max_retries, "attempts repeated before the first token");
  f.field("max_resumes", &max_resumes, "times a stream may go on elsewhere");
  f.field("reserve_timeout", &reserve_timeout, "longest wait for a decode worker's answer to Reserve");
  f.field("resume_wait", &resume_wait, "how long a broken stream waits for workers that fit");
  f.section("prefix_cache");
  f.field("scope", &prefix_cache_scope, "whose prompts share KV: key = of one API key, all = everybody's");
  f.section("limits");
  f.field("default_max_tokens", &default_max_tokens, "tokens to generate when a request names none");
  f.field("max_choices", &max_choices, "most choices of one request: prompts x n");
  f.section("slo");
  f.field("default_class", &default_slo_class, "class of a request that names none");
  for (auto& slo_class : slo_classes) {
    f.section("slo." + slo_class.name);
    f.field("ttft", &slo_class.ttft, "objective: time to the first token");
    f.field("tpot", &slo_class.tpot, "objective: mean time per token after it");
    f.field("deadline", &slo_class.deadline, "longest life of a request");
    f.field("queue_timeout", &slo_class.queue_timeout, "longest wait for a worker");
    f.field("queue_limit", &slo_class.queue_limit, "most sequences that wait");
  }
}

void RouterConfig::validate() const {
  check_field(!model_path.empty(), "model.path", "is needed");
  check_field(http_max_body_bytes > 0, "http.max_body_bytes", "must be above 0");
  check_field(http_max_connections > 0, "http.max_connections", "must be above 0");
  check_field(live_page == "auto" || live_page == "on" || live_page == "off", "http.live_page",
              "'" + live_page + "' is not one of auto, on, off");
  for (const std::string& origin : cors_origins)
    check_field(
        is_cors_origin(origin), "http.cors_origins",
        "'" + origin + "' is neither * nor an origin such as https://chat.example or http://localhost:3000");
  check_field(tls_certificate_file.empty() == tls_key_file.empty(), "http.tls_key_file",
              "the certificate and its key go together");
  check_field(find_routing_policy(policy) != nullptr, "routing.policy",
              "'" + policy + "' is not one of round_robin, least_loaded, expert_affinity");
  check_field(prefill_slots > 0, "routing.prefill_slots", "must be above 0");
  check_field(decode_overcommit >= 1 && decode_overcommit <= 16, "routing.decode_overcommit",
              "must be from 1 to 16");
  check_field(reserve_timeout.count() > 0, "routing.reserve_timeout", "must be above 0");
  check_field(heartbeat_timeout.count() > 0, "control.heartbeat_timeout", "must be above 0");
  check_field(prefix_cache_scope == "key" || prefix_cache_scope == "all", "prefix_cache.scope",
              "'" + prefix_cache_scope + "' is not one of key, all");
  check_field(default_max_tokens > 0, "limits.default_max_tokens", "must be above 0");
  check_field(max_choices > 0 && max_choices <= 1024, "limits.max_choices", "must be from 1 to 1024");
  for (const auto& slo_class : slo_classes) check_class(slo_class, max_choices);
  check_field(default_slo_index() < slo_classes.size(), "slo.default_class",
              "'" + default_slo_class + "' is not a class");
}

std::string RouterConfig::served_model() const { return served_model_name(model_name, model_path); }

std::size_t RouterConfig::default_slo_index() const {
  const auto at = std::find_if(slo_classes.begin(), slo_classes.end(),
                               [&](const SloClass& c) { return c.name == default_slo_class; });
  return static_cast<std::size_t>(at - slo_classes.begin());
}

DispatchConfig RouterConfig::dispatch() const {
  DispatchConfig out;
  out.workers = {find_routing_policy(policy), prefill_slots, decode_overcommit, heartbeat_timeout,
                 mixed_fingerprints};
  out.limits = {max_retries, max_resumes};
  out.reserve_timeout = reserve_timeout;
  out.resume_wait = resume_wait;
  return out;
}

HttpServerConfig RouterConfig::http() const {
  HttpServerConfig out;
  out.host = http_host;
  out.port = http_port;
  out.max_body_bytes = http_max_body_bytes;
  out.max_connections = http_max_connections;
  out.tls_certificate_file = tls_certificate_file;
  out.tls_key_file = tls_key_file;
  out.cors.origins = cors_origins;
  return out;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string cluster_secret(const RouterConfig& config) {
  const std::string secret = read_shared_secret(config.secret_file);
  check_field(!secret.empty() || is_loopback(config.control_host), "control.host",
              "'" + config.control_host +
                  "' is open to other hosts: that needs a shared secret (control.secret_file or " +
                  kSecretVariable + ")");
  // Whoever guesses it may read prompts and write KV.
  check_field(secret.size() >= kShortestSecret || is_loopback(config.control_host),
              config.secret_file.empty() ? kSecretVariable : "control.secret_file",
              "a secret of " + std::to_string(secret.size()) + " characters is too short for '" +
                  config.control_host + "', which is open to other hosts: at least " +
                  std::to_string(kShortestSecret));
  return secret;
}

}  // namespace lynx
