// The headers of proto/kv.capnp as bytes. Decoding trusts nothing: any input gives a value or an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/core/result.h"
#include "common/transport/kv_transport.h"

namespace lynx::kv_wire {

using Words = std::vector<std::uint64_t>;  // a flat Cap'n Proto message
inline std::span<const std::byte> bytes_of(const Words& words) { return std::as_bytes(std::span(words)); }

struct Push {
  std::uint64_t push_id = 0;
  std::uint64_t incarnation = 0;  // of the worker that the sender means
  std::uint64_t checksum = 0;     // 0: not computed
  std::uint64_t read_before = 0;  // ns of the clock of `host`; 0: no limit. See kv_loan.h
  std::uint64_t host = 0;
  KvPushHeader header;
};
Words encode(const Push& push);
Result<Push> decode_push(std::span<const std::byte> bytes);

struct Ack {
  std::uint64_t push_id = 0;
  Status verdict;
};
Words encode(const Ack& ack);
Result<Ack> decode_ack(std::span<const std::byte> bytes);

// Of a payload, never 0. Any flipped bit and any two swapped words change it; no defence against an
// adversary.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace lynx::kv_wire
