// The settings that a prefill and a decode worker share, listed once (see common/config).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/config/yaml_reader.h"
#include "common/kv/page_layout.h"
#include "common/net/control_link.h"
#include "common/transport/ucx_config.h"
#include "services/engine/model.h"

namespace lynx {

struct WorkerConfig {
  using ms = std::chrono::milliseconds;

  std::string log_level = "info";
  std::string backend = "auto";
  std::uint32_t threads = 0;  // 0 = every core
  ms shutdown_grace{30'000};
  std::vector<std::string> routers{"127.0.0.1:7700"};

  std::string worker_name;  // empty = host-pid

  std::string model_path;
  std::string model_name;  // empty = the last part of the path
  std::string load_format = "auto";

  std::string http_host = "127.0.0.1";
  std::uint16_t http_port = 0;

  std::string secret_file;  // else the environment's LYNX_CLUSTER_SECRET
  ms heartbeat{500};

  std::uint32_t kv_blocks = 0;  // 0 = from memory_mb
  std::uint64_t kv_memory_mb = 256;
  std::uint32_t kv_block_tokens = 16;
  std::string kv_dtype = "f32";
  std::string kv_path = "auto";

  UcxConfig ucx;

  void describe(ConfigFields& fields);
  void validate() const;  // throws ConfigError naming the field

  std::string name() const;
  std::string served_model() const;
  std::vector<RouterAddress> router_addresses() const;  // after validate()
  PageLayout layout(const ModelConfig& model) const;    // throws ConfigError when the pool holds no block
};

// "host:port" or "[v6 address]:port". Throws ConfigError naming the text.
RouterAddress parse_router(const std::string& text);

}  // namespace lynx
