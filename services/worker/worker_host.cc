#include "services/worker/worker_host.h"

#include <cstdlib>
#include <utility>

#include "common/config/shared_secret.h"
#include "common/core/log.h"
#include "common/core/random.h"

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kTick{10};
constexpr std::chrono::milliseconds kSlept{1'000};
constexpr std::chrono::milliseconds kFlush{100};  // for the last frames to leave
constexpr std::chrono::milliseconds kEngineStops{2'000};
constexpr std::chrono::milliseconds kLastWords{
    1'000};  // after the grace period, for what was abandoned to end

// Grows with time, so that of two lives of one worker the later has the larger number.
std::uint64_t new_incarnation() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

HttpServerConfig http_config(const WorkerConfig& config) {
  HttpServerConfig out;
  out.host = config.http_host;
  out.port = config.http_port;
  out.max_connections = 64;  // a scraper, a prober, people
  return out;
}

}  // namespace

WorkerHost::WorkerHost(EventLoop& loop, WorkerSetup setup)
    : loop_(loop),
      setup_(std::move(setup)),
      name_(setup_.config.name()),
      incarnation_(new_incarnation()),
      secret_(read_shared_secret(setup_.config.secret_file)),
      registry_({{"model", setup_.config.served_model()}, {"role", setup_.service}, {"worker", name_}}),
      metrics_(registry_, setup_.service),
      engine_metrics_(registry_),
      cache_(setup_.layout, KvCache::Fill::kLater, memory_of(setup_.kv_path)),
      ledger_(setup_.layout.blocks, random64()),
      pages_(pages()),
      http_(loop, http_config(setup_.config), pages_.handler()),
      ticker_(loop.every(kTick, [this] { tick(); })),
      engine_(std::make_unique<EngineLoop>(setup_.engine, engine_wiring())) {
  log::info("'{}' loads its model; probes and metrics on {}:{}", name_, setup_.config.http_host,
            http_.port());
}

WorkerHost::~WorkerHost() {
  engine_.reset();
  links_.reset();
  pump_.reset();
  role_.transport.reset();
}

int WorkerHost::run() {
  loop_.run();
  if (engine_->stop(kEngineStops)) return exit_code_;
  // Nothing that the thread holds outlives the process, and whoever sent SIGTERM waits.
  log::warn("the engine does not stop: it loads its model, or its device hangs");
  std::_Exit(exit_code_);
}

EngineLoop::Wiring WorkerHost::engine_wiring() {
  EngineLoop::Wiring wiring;
  // The pool is large: its pages are touched on the engine's thread, while the probes are answered.
  wiring.load = [this] {
    cache_.fill();
    return setup_.load();
  };
  wiring.cache = &cache_;
  wiring.clock = &clock_;
  wiring.metrics = &engine_metrics_;
  wiring.wake = [this] {
    if (!wake_pending_.exchange(true)) loop_.post([this] { take_events(); });
  };
  // Every sequence in the engine holds a block, and sends one command to come and at most one to go.
  wiring.command_capacity = 2 * std::size_t{setup_.layout.blocks};
  return wiring;
}

bool WorkerHost::submit(EngineCommand command) {
  const bool admits = std::holds_alternative<AdmitSequence>(command);
  if (engine_ == nullptr || !engine_->submit(std::move(command))) return false;
  if (admits && in_engine_++ == 0) heard_ = clock_.now();
  return true;
}

void WorkerHost::take_events() {
  wake_pending_ = false;
  if (engine_ == nullptr) return;
  heard_ = clock_.now();
  for (EngineEvent& event : engine_->events()) take(std::move(event));
  if (pump_) pump_->kick();
}

void WorkerHost::take(EngineEvent event) {
  if (const auto* ready = std::get_if<ModelReady>(&event)) {
    open(*ready);
  } else if (const auto* failed = std::get_if<ModelFailed>(&event)) {
    log::error("{}", failed->message);
    stop(1);
  } else if (const auto* layer = std::get_if<LayerDone>(&event)) {
    role_.service->on_layer(*layer);
  } else {
    auto& step = std::get<StepDone>(event);
    in_engine_ -= step.ended.size();
    role_.service->on_step(std::move(step));
  }
}

void WorkerHost::open(const ModelReady& model) {
  log::info("model loaded in {:.2f} s on {}; KV layout {}, path {}", model.load_seconds, model.traits.device,
            setup_.layout.describe(), to_string(setup_.kv_path));
  metrics_.show_device(model.traits.device, std::string(to_string(setup_.kv_path)));
  if (draining_) return;  // told to go while loading
  model_ = model.config;
  model_fingerprint_ = model.fingerprint;
  try {
    role_ = setup_.make_role({{model_, cache_, ledger_, clock_, *this, metrics_,
                               [this](EngineCommand command) { return submit(std::move(command)); }},
                              registry_,
                              incarnation_});
  } catch (const std::exception& e) {
    log::error("{}", e.what());
    return stop(1);
  }
  pump_ = std::make_unique<TransportPump>(loop_, *role_.transport);
  links_ = std::make_unique<RouterLinks>(loop_, ControlIdentity{setup_.service, secret_},
                                         setup_.config.router_addresses(), link_callbacks());
  heartbeat_ = loop_.every(setup_.config.heartbeat, [this] { beat(); });
}

// Requests would end by their deadlines, one after the other, while the worker still said that it is ready.
bool WorkerHost::hangs() {
  const auto now = clock_.now();
  const bool slept = now - std::exchange(ticked_, now) > kSlept;  // stopped ourselves, we heard nothing
  if (slept) heard_ = now;
  return in_engine_ > 0 && now - heard_ > setup_.engine_silence;
}

void WorkerHost::tick() {
  if (role_.service == nullptr) return;
  if (hangs()) {
    log::error("the engine has been silent for {} s with {} sequences: its device hangs",
               setup_.engine_silence.count() / 1000, in_engine_);
    return stop(1);
  }
  role_.service->on_tick();
  if (draining_ && role_.service->idle()) stop(0);
}

void WorkerHost::drain() {
  if (stopping_ || std::exchange(draining_, true) || role_.service == nullptr) return stop(0);
  log::info("draining: {} requests have {} s", role_.service->load().running + role_.service->load().waiting,
            std::chrono::duration_cast<std::chrono::seconds>(setup_.config.shutdown_grace).count());
  role_.service->drain();
  beat();  // routers send nothing more from here on
  grace_ = loop_.after(setup_.config.shutdown_grace, [this] {
    log::warn("the grace period is over: what is left is ended");
    role_.service->abandon({ErrorCode::kUnavailable, "worker '" + name_ + "' shuts down"});
    grace_ = loop_.after(kLastWords, [this] { stop(0); });
  });
}

void WorkerHost::stop(int exit_code) {
  // A fault stays one, also when the worker is told to go while its last frames leave.
  if (!std::exchange(stopping_, true)) exit_code_ = exit_code;
  ticker_.reset();
  grace_ = loop_.after(kFlush, [this] { loop_.stop(); });
}

}  // namespace lynx
