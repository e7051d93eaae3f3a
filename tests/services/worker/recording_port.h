// A RouterPort that keeps what the worker said, by kind.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/kv/kv_ledger.h"
#include "proto/worker.capnp.h"
#include "services/worker/router_port.h"

namespace lynx::testing {

struct HeardLease {
  WireId wire;
  LeaseTicket ticket;
  std::uint32_t deadline_ms = 0;
  std::vector<BlockId> blocks;
};
struct HeardBusy {
  WireId wire;
  std::uint32_t retry_after_ms = 0;
  std::string reason;
};
struct HeardEnded {
  WireId wire;
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  bool transfer = false;
};
struct HeardToken {
  WireId wire;
  std::uint64_t step = 0;
  std::uint32_t token = 0;
  std::uint32_t index = 0;
  proto::FinishReason finish = proto::FinishReason::NONE;
};
struct HeardFrame {  // of Tokens
  LinkId link = 0;
  std::uint64_t step = 0;
  std::size_t items = 0;
};
struct HeardHandOver {
  WireId wire;
  std::uint64_t bytes = 0;
  double transfer_seconds = 0;
  double exposed_seconds = 0;
  std::vector<std::uint8_t> expert_shares = {};
};

class RecordingPort final : public RouterPort {
 public:
  bool send(LinkId link, capnp::MessageBuilder& message) override;

  std::vector<HeardLease> leases;
  std::vector<HeardBusy> busy;
  std::vector<HeardEnded> ended;
  std::vector<HeardToken> first_tokens;
  std::vector<HeardToken> tokens;
  std::vector<HeardFrame> token_frames;
  std::vector<HeardHandOver> handed_over;
  std::set<LinkId> down;
};

}  // namespace lynx::testing
