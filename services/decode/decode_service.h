// The decode worker on its IO thread: leases blocks to requests, takes in the KV that prefill workers push,
// hands complete sequences to the engine, and sends each step's tokens to their routers.
//
// A lease covers the prompt and every token the request may still generate, all or nothing. That is why
// nothing that runs is ever preempted for memory here: what would have to be recomputed lives on another
// worker, so giving blocks away under a running stream would cost the client a whole prefill, while refusing
// a new request costs it a retry.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/transport/kv_transport.h"
#include "services/decode/landing.h"
#include "services/decode/retry_after.h"
#include "services/decode/step_cost_metrics.h"
#include "services/engine/step_cost.h"
#include "services/worker/worker_parts.h"

namespace lynx {

struct DecodeSettings {
  std::uint32_t max_sequences = 32;                 // leased and running together; more are Busy
  std::chrono::milliseconds lease_timeout{30'000};  // for the KV to arrive, the prefill's queue included
};

class DecodeService final : public WorkerService, public KvSink {
 public:
  DecodeService(const DecodeSettings& settings, WorkerParts parts, MetricsRegistry& registry);

  void on_frame(LinkId link, proto::Frame::Reader frame) override;
  void on_link_down(LinkId link) override;
  void on_layer(const LayerDone&) override {}  // of prefill steps; there are none here
  void on_step(StepDone step) override;
  void on_tick() override;
  void drain() override { draining_ = true; }
  void abandon(const Error& why) override;
  bool idle() const override { return requests_.empty(); }
  wire::Load load() const override;
  std::uint32_t held_blocks() const override;

  Result<std::span<std::byte>> write_begin(const KvPushHeader& header) override;
  void write_done(const KvPushHeader& header, Result<std::uint64_t> bytes) override;

 private:
  enum class State : std::uint8_t {
    kReceiving,  // leased; its KV is on the way
    kRunning,    // the engine has it
    kLeaving,    // cancelled or failed; the engine still has it
  };
  struct Request {
    WireId wire;
    State state = State::kReceiving;
    std::uint64_t lease = 0;
    std::uint32_t blocks = 0;
    std::uint32_t remaining_tokens = 0;  // at most, for retry_after
    Sequence sequence;                   // until the engine has it
    Landing landing;
    std::optional<SampledTokenData> first;
  };
  using Requests = std::unordered_map<SequenceId, Request>;

  void reserve(LinkId link, proto::Reserve::Reader frame);
  void lease(const WireId& wire, wire::Request&& in);
  void join(Requests::iterator self, const SampledTokenData& first);  // everything is in: to the engine
  Status check_first(const Sequence& sequence, const SampledTokenData& first) const;
  void send_tokens(const StepDone& step);
  void engine_let_go(const SequenceEnded& end);

  void fail(Requests::iterator request, const Error& why, wire::FaultOf of = wire::FaultOf::kRequest);
  void cancel(Requests::iterator request);  // silently
  void forget(Requests::iterator request);  // its blocks are free from here on
  void busy(const WireId& wire, const std::string& reason, std::uint32_t blocks_missing);
  double step_seconds() const { return cost_.predict(last_work_); }

  const DecodeSettings settings_;
  const WorkerParts parts_;
  Requests requests_;
  std::map<WireId, SequenceId> by_wire_;
  SequenceId next_id_ = 1;
  StepCost cost_;
  StepCostMetrics cost_metrics_;
  StepWork last_work_;
  bool draining_ = false;
};

}  // namespace lynx
