// Every setting of the router, listed once (see common/config): YAML, flags and --print-config come from that
// list.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/config/yaml_reader.h"
#include "common/net/http_server.h"
#include "services/router/control_server.h"
#include "services/router/dispatcher.h"

namespace lynx {

struct RouterConfig {
  using ms = std::chrono::milliseconds;

  std::string log_level = "info";
  ms shutdown_grace{120'000};

  std::string model_path;
  std::string model_name;  // empty = the last part of the path

  std::string http_host = "127.0.0.1";
  std::uint16_t http_port = 8000;
  std::uint64_t http_max_body_bytes = 8 << 20;
  std::uint64_t http_max_connections = 4096;
  std::string live_page = "auto";
  std::vector<std::string> cors_origins;  // empty = no page of another origin
  std::string api_keys_file;              // one key a line; empty = no keys asked
  std::string tls_certificate_file;
  std::string tls_key_file;

  std::string control_host = "127.0.0.1";
  std::uint16_t control_port = 7700;
  std::string secret_file;  // else the environment's LYNX_CLUSTER_SECRET

  std::string policy = "least_loaded";
  std::uint32_t prefill_slots = 8;
  double decode_overcommit = 1;
  bool mixed_fingerprints = false;
  std::uint32_t max_retries = 3;
  std::uint32_t max_resumes = 8;
  ms reserve_timeout{2000};
  ms heartbeat_timeout{3000};
  ms resume_wait{10'000};

  std::string prefix_cache_scope = "key";

  std::uint32_t default_max_tokens = 256;
  std::uint32_t max_choices = 16;

  std::string default_slo_class = "standard";
  std::vector<SloClass> slo_classes{
      {"interactive", ms(500), ms(50), ms(60'000), ms(10'000), 256},
      {"standard", ms(2000), ms(100), ms(120'000), ms(30'000), 512},
      {"batch", ms(30'000), ms(500), ms(600'000), ms(300'000), 1024},
  };

  void describe(ConfigFields& fields);
  void validate() const;  // throws ConfigError naming the field

  std::string served_model() const;
  std::size_t default_slo_index() const;
  bool scopes_cache_by_key() const { return prefix_cache_scope == "key" && !api_keys_file.empty(); }
  DispatchConfig dispatch() const;  // after validate()
  HttpServerConfig http() const;
};

// The shared secret of the cluster, from the file or the environment. Throws ConfigError when the file cannot
// be read or is empty, and when the control port is open beyond loopback without a secret.
std::string cluster_secret(const RouterConfig& config);

bool is_loopback(const std::string& host);

}  // namespace lynx
