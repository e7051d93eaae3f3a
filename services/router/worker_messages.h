// The frames a router sends and the parts it reads, as plain structs: what a frame says is read out before
// any state changes, so a frame that turns out to be malformed (kj::Exception) has done nothing.
#pragma once

#include <capnp/message.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "common/core/result.h"
#include "proto/worker.capnp.h"
#include "services/router/sequence_spec.h"
#include "services/router/worker_table.h"

namespace lynx {

// What Reserve and Prefill have in common: the tokens to hold, of which the last `generated` were generated
// before.
struct AttemptHead {
  std::uint64_t request = 0;
  const SequenceSpec& spec;
  std::span<const TokenId> generated;
  std::chrono::milliseconds remaining{0};
  const std::string& slo_class;
};

// Why a request ended at a worker.
struct WorkerFault {
  Error error;
  bool transfer = false;  // it is that of a KV transfer: a worker of before this was told leaves it unset
};

void write_reserve(capnp::MessageBuilder& message, const AttemptHead& head);
void write_prefill(capnp::MessageBuilder& message, const AttemptHead& head, proto::Lease::Reader lease,
                   const WorkerInfo& decode, bool count_experts);
void write_cancel(capnp::MessageBuilder& message, std::uint64_t request);
void write_gone(capnp::MessageBuilder& message, const WorkerInfo& decode);

WorkerInfo read_register(proto::Register::Reader in);
WorkerHealth read_heartbeat(proto::Heartbeat::Reader in);
GeneratedToken read_token(proto::SampledToken::Reader in);
GeneratedToken read_item(proto::Tokens::Item::Reader in);  // its receipt too, if that can be true
WorkerFault read_ended(proto::Ended::Reader in);

}  // namespace lynx
