#include "services/engine/engine_loop.h"

#include <chrono>
#include <exception>
#include <utility>

namespace lynx {
namespace {

// Enough for the layers of several steps. When the IO thread falls that far behind, the engine waits for it:
// running on would only pile up tokens that nobody sends.
constexpr std::size_t kEventCapacity = 1024;
constexpr std::chrono::milliseconds kIdleWait{100};
constexpr std::chrono::microseconds kBackPressureWait{200};

}  // namespace

EngineLoop::EngineLoop(const EngineConfig& config, Wiring wiring)
    : config_(config),
      wiring_(std::move(wiring)),
      commands_(wiring_.command_capacity),
      events_(kEventCapacity),
      thread_([this] {
        run();
        ended_.set_value();
      }) {}

EngineLoop::~EngineLoop() {
  commands_.close();
  events_.close();
  thread_.join();
}

bool EngineLoop::stop(std::chrono::milliseconds patience) {
  commands_.close();
  events_.close();
  return end_.wait_for(patience) == std::future_status::ready;
}

bool EngineLoop::submit(EngineCommand command) { return commands_.try_push(std::move(command)); }
std::vector<EngineEvent> EngineLoop::events() { return events_.drain(); }

void EngineLoop::run() {
  const std::unique_ptr<Model> model = load();
  if (!model) return;
  EngineCore core(config_, *model, *wiring_.cache, *wiring_.clock, *wiring_.metrics,
                  [this](EngineEvent event) { emit(std::move(event)); });
  while (!commands_.closed()) {
    for (EngineCommand& command : core.idle() ? commands_.wait_drain(kIdleWait) : commands_.drain())
      core.apply(std::move(command));
    if (core.idle()) continue;
    try {
      core.step();
    } catch (const DeviceLost& e) {
      return emit(ModelFailed{e.what()});
    }
  }
}

std::unique_ptr<Model> EngineLoop::load() {
  const Clock::time_point start = wiring_.clock->now();
  try {
    std::unique_ptr<Model> model = wiring_.load();
    model->attach(*wiring_.cache);
    emit(ModelReady{model->config(), model->fingerprint(), model->traits(),
                    seconds(wiring_.clock->now() - start)});
    return model;
  } catch (const std::exception& e) {
    emit(ModelFailed{e.what()});
    return nullptr;
  }
}

void EngineLoop::emit(EngineEvent event) {
  while (!events_.try_push(std::move(event))) {  // NOLINT(bugprone-use-after-move): refused, it is untouched
    if (events_.closed()) return;
    std::this_thread::sleep_for(kBackPressureWait);
  }
  wiring_.wake();
}

}  // namespace lynx
