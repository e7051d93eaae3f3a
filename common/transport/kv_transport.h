// Moves KV blocks from a prefill worker into blocks that a decode worker has leased. One object per process
// and IO thread; all calls and callbacks on that thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/core/clock.h"
#include "common/core/result.h"
#include "common/kv/kv_ledger.h"
#include "common/kv/page_layout.h"

namespace lynx {

struct SampledTokenData {  // mirrors proto SampledToken
  std::uint32_t token = 0;
  std::uint32_t index = 0;
  std::uint8_t finish = 0;  // proto FinishReason
  float logprob = 0;
  std::vector<std::pair<std::uint32_t, float>> top_logprobs;
};

struct KvPeer {        // one life of one decode worker
  std::string worker;  // name, for messages
  std::uint64_t incarnation = 0;
  std::string address;  // opaque transport address from its registration

  bool operator==(const KvPeer&) const = default;
};

struct KvPushHeader {
  LeaseTicket lease;
  std::uint64_t kv_layout = 0;  // sender's PageLayout::fingerprint
  std::uint32_t layer = 0;
  BlockId first_block = 0;                      // in the receiver's pool
  std::uint32_t blocks = 0;                     // a contiguous run
  std::optional<SampledTokenData> first_token;  // set on the last push that is posted for the lease
};

struct KvPush {
  KvPeer peer;
  KvPushHeader header;
  std::span<const std::byte> bytes;  // must stay valid and unchanged until done(); where: see the transport
  Clock::time_point deadline;
};

class KvTransport {
 public:
  virtual ~KvTransport() = default;

  // done() exactly once, from progress(), never from push(): the bytes landed and were accepted, or an error.
  // After it the transport touches the bytes no more.
  using Done = std::function<void(Result<std::uint64_t> bytes)>;
  virtual void push(KvPush push, Done done) = 0;

  // Drives everything; returns the number of events handled. Call when event_fd() is readable and at least
  // every 10 ms (deadlines).
  virtual std::size_t progress() = 0;
  // Before sleeping on event_fd(): true = armed, sleep; false = events came meanwhile, call progress() again.
  virtual bool arm() = 0;
  virtual int event_fd() const = 0;  // -1: none, poll

  // Fails every push to this life of the peer and forgets it (the router said it is gone, or it was
  // replaced).
  virtual void forget(const KvPeer& peer) = 0;

  virtual std::string address() const = 0;  // opaque, for KvPeer::address of others
  virtual std::string transport_name()
      const = 0;  // what UCX chose: "tcp", "shm", ...; empty before first use
};

// The receiving side, implemented by the decode worker over its ledger.
class KvSink {
 public:
  virtual ~KvSink() = default;
  // Where the bytes go, or why not (the sender is told). On success exactly one write_done for it follows.
  virtual Result<std::span<std::byte>> write_begin(const KvPushHeader& header) = 0;
  virtual void write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) = 0;
};

}  // namespace lynx
