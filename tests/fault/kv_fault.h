// What the KV fault tests and their other process agree on.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/transport/ucx_transport.h"
#include "tests/common/transport/push_fixtures.h"
#include "tests/support/patience.h"

namespace lynx::fault {

constexpr std::uint32_t kRunBlocks = 512;  // 2 MB a push

// One lease holds the whole pool, so its first block is block 0.
inline PageLayout layout() { return testing_kv::small_layout(kRunBlocks); }

// A receiver waits for a payload as long as it takes, unless a test is about payloads that stay away.
inline UcxConfig config(const std::string& transport, std::chrono::milliseconds receive_timeout = kPatience) {
  UcxConfig config;
  config.transport = transport;
  config.require_transport = transport;
  config.checksum = true;
  config.keepalive = std::chrono::milliseconds(200);
  config.receive_timeout = receive_timeout;
  if (transport == "tcp") config.net_devices = "lo";
  return config;
}

inline KvPush push_to(const KvPeer& peer, const LeaseTicket& lease, std::span<const std::byte> bytes,
                      Clock::time_point deadline) {
  return {peer, {lease, layout().fingerprint(), 0, 0, kRunBlocks, std::nullopt}, bytes, deadline};
}

inline std::string to_text(const LeaseTicket& lease) {
  return std::to_string(lease.id) + " " + std::to_string(lease.generation) + " " + std::to_string(lease.key);
}

inline std::string to_hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += kDigits[b >> 4U];
    out += kDigits[b & 15U];
  }
  return out;
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

}  // namespace lynx::fault
