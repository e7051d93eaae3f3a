// What GET /debug/kv answers.
#include <algorithm>
#include <chrono>

#include "common/kv/kv_ledger.h"

namespace lynx {

namespace {

std::string member(std::string_view name, std::uint64_t value) {
  return "\"" + std::string(name) + "\":" + std::to_string(value);
}

}  // namespace

std::string KvLedger::to_json(std::optional<Clock::time_point> now) const {
  std::string out = "{" + member("blocks", total_blocks()) + ",\"states\":{";
  for (std::size_t i = 0; i < kBlockStates; ++i) {
    if (i > 0) out += ',';
    out += member(to_string(static_cast<BlockState>(i)), blocks_.counts()[i]);
  }
  out += "},\"leases\":[";

  std::vector<const Lease*> by_id;
  for (const auto& entry : leases_) by_id.push_back(&entry.second);
  std::sort(by_id.begin(), by_id.end(),
            [](const Lease* a, const Lease* b) { return a->ticket.id < b->ticket.id; });
  for (const Lease* lease : by_id) {
    if (lease != by_id.front()) out += ',';
    out +=
        "{" + member("lease", lease->ticket.id) + "," + member("request", lease->request) + ",\"state\":\"";
    switch (lease->phase) {
      case Phase::kOpen:
        out += "open";
        break;
      case Phase::kActive:
        out += "active";
        break;
      case Phase::kRevoked:
        out += "revoked";
        break;
    }
    out += "\"," + member("blocks", lease->blocks.size()) + "," +
           member("prompt_blocks", lease->prompt_blocks) + "," + member("writes_under_way", lease->writes);
    if (now && lease->phase == Phase::kOpen) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(lease->deadline - *now).count();
      out += ",\"expires_in_ms\":" + std::to_string(left);
    }
    out += "}";
  }
  return out + "]}";
}

}  // namespace lynx
