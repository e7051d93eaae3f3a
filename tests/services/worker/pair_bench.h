// A prefill and a decode worker in one thread for tests: real services, ledgers, engines and frames; a fake
// model, a loopback transport, a clock that stands still, and a router that is the test itself.
#pragma once

#include <deque>
#include <memory>

#include "common/transport/loopback.h"
#include "services/decode/decode_service.h"
#include "services/engine/engine_core.h"
#include "services/prefill/prefill_service.h"
#include "tests/services/engine/fake_model.h"
#include "tests/services/worker/recording_port.h"

namespace lynx::testing {

// Everything of one worker but its service.
struct WorkerBench {
  WorkerBench(const EngineConfig& config, std::uint32_t blocks, const FakeModelOptions& options,
              const Clock& clock, const std::string& service);
  WorkerParts parts(const Clock& clock);
  void turn(WorkerService& service);  // a step of the engine, then its events

  FakeModel model;
  KvCache cache;
  KvLedger ledger;
  RecordingPort port;
  MetricsRegistry registry;
  WorkerMetrics metrics;
  EngineMetrics engine_metrics;
  std::deque<EngineEvent> events;
  EngineCore core;
};

struct PairOptions {
  std::uint32_t prefill_blocks = 64;
  std::uint32_t decode_blocks = 128;
  BatchLimits prefill_limits{4, 16};
  BatchLimits decode_limits{8, 16};
  PrefillSettings prefill;
  DecodeSettings decode;
  FakeModelOptions model;
};

struct Ask {
  WireId wire{1, 1};
  std::vector<TokenId> tokens{1, 2, 3, 4, 5};
  std::uint32_t generated = 0;
  SamplingParams sampling = [] {
    SamplingParams p;
    p.temperature = 0;
    p.max_tokens = 6;
    return p;
  }();
  std::uint32_t deadline_ms = 10'000;
  bool count_experts = false;
  std::uint64_t cache_salt = 0;
};

// A request by that number, with a prompt of one token of its own, so many times.
inline Ask ask(std::uint64_t request, std::uint32_t length) {
  Ask out;
  out.wire.request = request;
  out.tokens.assign(length, static_cast<TokenId>(request % 50 + 1));
  return out;
}

class PairBench {
 public:
  explicit PairBench(const PairOptions& options = {});
  ~PairBench();

  static constexpr std::uint64_t kIncarnation = 77;

  void reserve(const Ask& ask);
  void prefill(const Ask& ask, const HeardLease& lease);
  void start(const Ask& ask);  // reserve, and prefill with the lease that came back
  void cancel(WorkerService& side, const WireId& wire);
  void gone(LinkId link, std::uint64_t incarnation);  // a router says it of the decode worker

  void turn();                 // both engines a step, all events, all pushes
  void run(int turns = 1000);  // until both workers are idle
  bool idle() const { return prefill_service.idle() && decode_service.idle(); }
  bool all_free() const { return prefill_side.ledger.all_free() && decode_side.ledger.all_free(); }

  // First token and those of the decode worker, in order.
  std::vector<TokenId> generated(const WireId& wire) const;

  ManualClock clock;
  LoopbackNetwork network;
  WorkerBench prefill_side;
  WorkerBench decode_side;
  PrefillMetrics prefill_metrics;
  DecodeService decode_service;
  std::unique_ptr<LoopbackTransport> decode_transport;
  LoopbackTransport prefill_transport;
  PrefillService prefill_service;
};

// What one process would generate for it.
std::vector<TokenId> generated_alone(const Ask& ask, const FakeModelOptions& options = {});

}  // namespace lynx::testing
