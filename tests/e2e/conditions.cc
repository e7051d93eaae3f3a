#include "tests/e2e/conditions.h"

#include "tests/e2e/api_client.h"

namespace lynx::testing {

std::function<bool()> has_blocks(const Worker& worker, const char* state) {
  return [&worker, state] {
    const auto kv = Cluster::debug_kv(worker);
    return kv.is_object() && kv.contains("states") && kv["states"].value(state, 0) > 0;
  };
}

std::function<bool()> has_stepped(const Worker& worker, int steps) {
  const auto made = [&worker] { return Cluster::metric(worker, "lynx_step_seconds_count"); };
  return [made, enough = made() + steps] { return made() >= enough; };
}

std::function<bool()> has_requests(Cluster& cluster, const Worker& worker) {
  return [&cluster, &worker] {
    const auto overview =
        nlohmann::json::parse(get(cluster.api_port(), "/debug/overview").body, nullptr, false);
    if (!overview.is_object()) return false;
    for (const auto& seen : overview["workers"])
      if (seen["name"] == worker.name) return seen["reserved"] > 0;
    return false;
  };
}

}  // namespace lynx::testing
