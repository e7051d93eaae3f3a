// The frame of a worker process: one IO thread with metrics and probes from the first moment, an engine
// thread that loads the model and steps, links to the routers once the model is there, heartbeats, and an
// orderly end.
//
//   starting -> (model loaded) serving -> (SIGTERM) draining -> (idle, or the grace period is over) stopped
//
// Started means that the model is loaded; live, that the IO thread turns; ready, that a router can send work
// now.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "common/metrics/text_endpoint.h"
#include "common/net/control_link.h"
#include "common/net/event_loop.h"
#include "common/net/http_server.h"
#include "services/engine/engine_loop.h"
#include "services/worker/expert_meter.h"
#include "services/worker/kv_path.h"
#include "services/worker/transport_pump.h"
#include "services/worker/worker_config.h"
#include "services/worker/worker_parts.h"

namespace lynx {

// One kind of worker, made when the model is there. The transport goes first: it may still call the service.
struct WorkerRole {
  std::unique_ptr<WorkerService> service;
  std::unique_ptr<KvTransport> transport;
};

struct RoleContext {
  WorkerParts parts;
  MetricsRegistry& registry;
  std::uint64_t incarnation = 0;
};

struct WorkerSetup {
  std::string service;  // prefill, decode
  proto::Role role = proto::Role::DECODE;
  WorkerConfig config;
  EngineConfig engine;
  PageLayout layout;
  KvPath kv_path = KvPath::kHost;
  std::uint32_t max_batch = 0;  // for the router: requests it may have here at once
  EngineLoop::LoadModel load;
  // With sequences in the engine, and not a word from it for so long, its device hangs: no error will tell.
  std::chrono::milliseconds engine_silence{120'000};
  std::function<WorkerRole(RoleContext)> make_role;
};

class WorkerHost final : private RouterPort {
 public:
  // Listens at once, and starts to load. Throws std::runtime_error and std::bad_alloc.
  WorkerHost(EventLoop& loop, WorkerSetup setup);
  ~WorkerHost() override;

  // Until stopped; the exit code. Ends the process itself when the engine does not stop.
  int run();
  void drain();  // SIGTERM; the second time it stops at once
  std::uint16_t http_port() const { return http_.port(); }

 private:
  bool send(LinkId link, capnp::MessageBuilder& message) override;

  TextEndpoint pages();
  void show_state();  // the gauges that are read off when somebody looks
  Status started() const;
  Status ready() const;
  EngineLoop::Wiring engine_wiring();

  bool submit(EngineCommand command);
  void take_events();
  void take(EngineEvent event);
  void open(const ModelReady& model);
  RouterLinks::Callbacks link_callbacks();
  void fill_register(capnp::MallocMessageBuilder& message) const;
  void beat();
  bool hangs();
  void tick();
  void stop(int exit_code);

  EventLoop& loop_;
  WorkerSetup setup_;
  const std::string name_;
  const std::uint64_t incarnation_;
  const std::string secret_;  // of the cluster
  SteadyClock clock_;
  MetricsRegistry registry_;
  WorkerMetrics metrics_;
  EngineMetrics engine_metrics_;
  ExpertMeter expert_meter_{engine_metrics_.routed(), engine_metrics_.activated()};
  KvCache cache_;
  KvLedger ledger_;
  ModelConfig model_;
  std::uint64_t model_fingerprint_ = 0;
  TextEndpoint pages_;
  HttpServer http_;
  WorkerRole role_;  // empty until the model is loaded
  std::unique_ptr<TransportPump> pump_;
  std::unique_ptr<RouterLinks> links_;
  std::unique_ptr<Timer> heartbeat_;
  std::unique_ptr<Timer> ticker_;
  std::unique_ptr<Timer> grace_;
  std::size_t in_engine_ = 0;  // sequences that it was given and has not let go of
  Clock::time_point heard_;    // its last event, or when it got its first sequence
  Clock::time_point ticked_;
  bool draining_ = false;
  bool stopping_ = false;
  int exit_code_ = 0;
  std::atomic<bool> wake_pending_{false};
  std::unique_ptr<EngineLoop> engine_;  // last: its thread uses what is above
};

}  // namespace lynx
