// What a worker brings to receive KV, and the checks that every transport makes before one byte lands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/core/result.h"
#include "common/kv/page_layout.h"
#include "common/transport/kv_transport.h"

namespace lynx {

struct KvReceiver {
  KvSink* sink = nullptr;         // not owned; outlives the transport
  PageLayout layout;              // of the pool that the sink hands out
  std::uint64_t incarnation = 0;  // this life of this worker
};

// The place for the payload of one push, or the fault for its sender. On success the caller owes the sink one
// write_done. incarnation: the life that the sender meant. payload: the length that arrived, whatever the
// header claims.
Result<std::span<std::byte>> admit_push(const KvReceiver& receiver, const KvPushHeader& header,
                                        std::uint64_t incarnation, std::size_t payload);

}  // namespace lynx
