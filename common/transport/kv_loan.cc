#include "common/transport/kv_loan.h"

#include <fstream>
#include <random>
#include <span>
#include <string>

#include "common/core/log.h"

namespace lynx::kv_loan {

namespace {

std::uint64_t nanoseconds(Clock::time_point at) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
  return since > 0 ? static_cast<std::uint64_t>(since) : 1;  // 0 says that there is no limit
}

}  // namespace

std::uint64_t this_host() {
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  return host_of(boot_id);
}

// Hosts that cannot tell who they are must not pass for one: their clocks have nothing to do with each other.
std::uint64_t host_of(std::istream& boot_id) {
  std::string id;
  std::getline(boot_id, id);
  if (!id.empty()) return kv_wire::checksum(std::as_bytes(std::span(id)));
  log::warn("KV: this boot of this machine has no name (/proc/sys/kernel/random/boot_id)");
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

void lend(kv_wire::Push& push, Clock::time_point deadline, std::uint64_t host) {
  push.read_before = nanoseconds(deadline);
  push.host = host;
}

Status still_lent(const kv_wire::Push& push, Clock::time_point now, std::uint64_t host) {
  if (push.read_before == 0 || push.host != host || nanoseconds(now) < push.read_before) return {};
  return {ErrorCode::kDeadlineExceeded, "a KV payload was read after its deadline"};
}

}  // namespace lynx::kv_loan
