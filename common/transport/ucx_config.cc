#include "common/transport/ucx_config.h"

namespace lynx {

namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw ConfigError(message);
}

bool is_kind(const std::string& word) { return word == "tcp" || word == "shm" || word == "rdma"; }

}  // namespace

void UcxConfig::describe(ConfigFields& fields, const std::string& section) {
  fields.section(section);
  fields.field("transport", &transport, "what UCX may use: auto, tcp, shm, rdma");
  fields.field("require_transport", &require_transport,
               "refuse to run over anything else: tcp, shm, rdma; empty = any");
  fields.field("net_devices", &net_devices, "network devices for UCX, for example eth0; empty = all");
  fields.field("rndv_threshold", &rndv_threshold,
               "bytes from which a push goes by rendezvous, without a copy");
  fields.field("max_in_flight", &max_in_flight, "pushes to one peer that UCX holds at once");
  fields.field("keepalive", &keepalive, "how often an idle connection is probed");
  fields.field("receive_timeout", &receive_timeout, "a payload that is still not in closes its connection");
  fields.field("checksum", &checksum, "check every payload before a write counts as landed");
}

void UcxConfig::validate() const {
  require(transport == "auto" || is_kind(transport),
          "ucx.transport: expected auto, tcp, shm or rdma, got '" + transport + "'");
  require(require_transport.empty() || is_kind(require_transport),
          "ucx.require_transport: expected tcp, shm, rdma or nothing, got '" + require_transport + "'");
  require(
      require_transport.empty() || transport == "auto" || transport == require_transport,
      "ucx.require_transport is '" + require_transport + "', but transport allows only '" + transport + "'");
  require(require_transport != "shm" || transport == "shm",
          "ucx.require_transport is 'shm', but transport 'auto' never uses it: set transport to 'shm'");
  require(max_in_flight >= 1, "ucx.max_in_flight: expected at least 1");
  require(keepalive.count() >= 1, "ucx.keepalive: expected at least 1 ms");
  require(receive_timeout.count() >= 1, "ucx.receive_timeout: expected at least 1 ms");
}

}  // namespace lynx
