// How this process uses UCX for the KV of its requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/config/yaml_reader.h"

namespace lynx {

struct UcxConfig {
  // What UCX may choose from. auto: RDMA where both sides have it, TCP otherwise. shm is for two processes of
  // one host and is only used when asked for: ucx_transport.h says why.
  std::string transport = "auto";  // auto, tcp, shm, rdma
  std::string require_transport;   // empty, or the one that UCX must end up with: anything else is refused
  std::string net_devices;         // UCX_NET_DEVICES, for example "eth0" or "mlx5_0:1"; empty: all
  std::uint32_t rndv_threshold =
      16 * 1024;                    // bytes; smaller pushes are copied on the way, larger ones are not
  std::uint32_t max_in_flight = 8;  // pushes to one peer that UCX holds at once; the rest wait here
  std::chrono::milliseconds keepalive{1000};          // how often an idle connection is probed
  std::chrono::milliseconds receive_timeout{10'000};  // a payload that is still not in closes its connection
  bool checksum = false;  // over every payload, checked before a write counts as landed

  void describe(ConfigFields& fields, const std::string& section);
  void validate() const;  // throws ConfigError that names the field
};

}  // namespace lynx
