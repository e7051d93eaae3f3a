// Turns the wheel of a KvTransport on an event loop: when its fd is readable, every few milliseconds for the
// deadlines, and on kick() after pushes were posted. Loop thread.
#pragma once

#include <memory>

#include "common/net/event_loop.h"
#include "common/transport/kv_transport.h"

namespace lynx {

class TransportPump {
 public:
  TransportPump(EventLoop& loop, KvTransport& transport);  // both outlive it
  void kick();

 private:
  void turn();

  EventLoop& loop_;
  KvTransport& transport_;
  std::unique_ptr<FdWatch> watch_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Timer> again_;
};

}  // namespace lynx
