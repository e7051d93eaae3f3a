// The engine thread of a worker: loads the model, then steps while there is work. Commands go in and events
// come out by bounded queues; wake runs on the engine thread after each event and should post the draining of
// events() to the IO thread. Everything handed in outlives the loop.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/core/bounded_queue.h"
#include "services/engine/engine_core.h"

namespace lynx {

class EngineLoop {
 public:
  using LoadModel = std::function<std::unique_ptr<Model>()>;  // may throw: reported as ModelFailed

  struct Wiring {
    LoadModel load;
    KvCache* cache = nullptr;
    const Clock* clock = nullptr;
    EngineMetrics* metrics = nullptr;
    std::function<void()> wake;
    std::size_t command_capacity = 1024;  // at least two per sequence that may be admitted at a time
  };

  EngineLoop(const EngineConfig& config, Wiring wiring);
  ~EngineLoop();  // stops after the step under way and joins, however long that takes
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  bool submit(EngineCommand command);  // any thread; false: full or stopping
  std::vector<EngineEvent> events();   // any thread: everything reported since

  // Stops after the step under way. False when the thread has not ended by then: a load cannot be
  // interrupted, and a device that hangs never comes back.
  bool stop(std::chrono::milliseconds patience);

 private:
  void run();
  std::unique_ptr<Model> load();
  void emit(EngineEvent event);

  const EngineConfig config_;
  const Wiring wiring_;
  BoundedQueue<EngineCommand> commands_;
  BoundedQueue<EngineEvent> events_;
  std::promise<void> ended_;
  const std::future<void> end_ = ended_.get_future();
  std::thread thread_;  // last: starts when all the rest is there
};

}  // namespace lynx
