// The control frames as the workers read and write them. Reading copies a frame out whole before any state
// changes, and turns what is malformed into an error: a router is outside, too.
#pragma once

#include <capnp/message.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "common/kv/kv_ledger.h"
#include "common/transport/kv_transport.h"
#include "proto/worker.capnp.h"
#include "services/engine/sampling_params.h"
#include "services/engine/step_receipt.h"
#include "services/worker/expert_meter.h"

namespace lynx::wire {

struct Request {  // what Reserve and Prefill have in common
  std::uint64_t request = 0;
  std::vector<TokenId> tokens;
  std::uint32_t generated = 0;
  SamplingParams sampling;
  std::chrono::milliseconds deadline{0};
  std::string slo_class;
};

struct PrefillRequest {
  Request head;
  LeaseTicket lease;
  std::chrono::milliseconds lease_deadline{0};
  std::vector<BlockId> lease_blocks;  // on the decode worker, in order of position
  KvPeer decode;
  bool count_experts = false;
  std::uint64_t cache_salt = 0;
};

Result<Request> read_reserve(proto::Reserve::Reader in);
Result<PrefillRequest> read_prefill(proto::Prefill::Reader in);

struct Hardware {  // for Register
  std::string worker;
  std::uint64_t incarnation = 0;
  proto::Role role = proto::Role::DECODE;
  std::uint64_t model_fingerprint = 0;
  std::uint64_t layout_fingerprint = 0;
  std::string model;
  std::uint32_t context_tokens = 0;
  std::uint32_t block_tokens = 0;
  std::uint32_t total_blocks = 0;
  std::uint32_t max_batch = 0;
  std::string kv_address;
  std::string metrics_address;
};

struct Load {  // for Heartbeat
  std::uint32_t free_blocks = 0;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  bool draining = false;
  float step_seconds = 0;
  std::string transport;
  ExpertMeans experts;
};

struct FirstToken {
  std::uint64_t request = 0;
  const SampledTokenData& token;
  double queue_seconds = 0;
  double compute_seconds = 0;
};

struct HandedOver {
  std::uint64_t request = 0;
  std::uint64_t bytes = 0;
  double transfer_seconds = 0;
  double exposed_seconds = 0;
  std::string transport;
  const std::vector<std::uint8_t>& expert_shares;
};

struct TokenItem {
  std::uint64_t request = 0;
  const SampledTokenData* token = nullptr;
  const StepReceipt* receipt = nullptr;  // null: not asked for
};

// What failed: only a KV transfer says something of the worker at its other end.
enum class FaultOf : std::uint8_t { kRequest, kTransfer };

void write_register(capnp::MessageBuilder& message, const Hardware& hardware);
void write_heartbeat(capnp::MessageBuilder& message, const Load& load);
void write_reserved(capnp::MessageBuilder& message, std::uint64_t request, const LeaseView& lease,
                    Clock::time_point now);
void write_busy(capnp::MessageBuilder& message, std::uint64_t request, std::chrono::milliseconds retry_after,
                const std::string& reason);
void write_ended(capnp::MessageBuilder& message, std::uint64_t request, const Error& error, FaultOf of);
void write_first_token(capnp::MessageBuilder& message, const FirstToken& first);
void write_handed_over(capnp::MessageBuilder& message, const HandedOver& done);
void write_tokens(capnp::MessageBuilder& message, std::uint64_t step, const std::vector<TokenItem>& items);

}  // namespace lynx::wire
