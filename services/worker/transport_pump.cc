#include "services/worker/transport_pump.h"

#include <chrono>

namespace lynx {
namespace {

constexpr std::chrono::milliseconds kDeadlinePeriod{5};
constexpr int kTurns =
    64;  // then the loop's other work has a turn: a steady stream of KV must not hold up the frames

}  // namespace

TransportPump::TransportPump(EventLoop& loop, KvTransport& transport)
    : loop_(loop), transport_(transport), timer_(loop.every(kDeadlinePeriod, [this] { turn(); })) {
  if (transport.event_fd() >= 0) watch_ = loop.watch_readable(transport.event_fd(), [this] { turn(); });
}

void TransportPump::kick() { turn(); }

void TransportPump::turn() {
  for (int i = 0; i < kTurns; ++i)
    if (transport_.progress() == 0 && transport_.arm()) return;
  again_ = loop_.after(Clock::duration::zero(), [this] { turn(); });
}

}  // namespace lynx
