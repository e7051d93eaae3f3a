// What a worker process is, seen from the host that gives it a thread, routers, an engine and an HTTP port.
// Everything is called on the IO thread.
#pragma once

#include <functional>

#include "proto/worker.capnp.h"
#include "services/engine/engine_messages.h"
#include "services/worker/router_port.h"
#include "services/worker/wire.h"

namespace lynx {

// Hands a command to the engine thread. False: refused (the engine is going down).
using SubmitCommand = std::function<bool(EngineCommand)>;

class WorkerService {
 public:
  virtual ~WorkerService() = default;
  virtual void on_frame(LinkId link, proto::Frame::Reader frame) = 0;
  virtual void on_link_down(LinkId link) = 0;  // its requests are nobody's any more
  virtual void on_layer(const LayerDone& layer) = 0;
  virtual void on_step(StepDone step) = 0;
  virtual void on_tick() = 0;  // every few milliseconds: deadlines

  virtual void drain() = 0;                    // refuse what is new, finish what is here
  virtual void abandon(const Error& why) = 0;  // the grace period is over: everything ends with this fault
  virtual bool idle() const = 0;               // nothing here, not even a push under way
  virtual wire::Load load() const = 0;
  // KV blocks of the requests that it knows. What else the ledger counts as taken is nobody's.
  virtual std::uint32_t held_blocks() const = 0;
};

}  // namespace lynx
