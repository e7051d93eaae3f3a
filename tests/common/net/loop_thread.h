// An event loop on a thread of its own, so that a test can talk to a server over blocking sockets.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "common/net/event_loop.h"
#include "tests/support/patience.h"

namespace lynx {

class LoopThread {
 public:
  LoopThread() : awake_(loop_.every(std::chrono::hours(1), [] {})), thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    on_loop([this] { awake_.reset(); });
    loop_.stop();
    thread_.join();
  }

  EventLoop& loop() { return loop_; }

  // Runs f on the loop's thread and waits for it.
  template <typename F>
  auto on_loop(F f) -> decltype(f()) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }

 private:
  EventLoop loop_;
  std::unique_ptr<Timer> awake_;
  std::thread thread_;
};

// Turns the loop of this very thread until the condition holds. False when it never did.
inline bool run_until(EventLoop& loop, const std::function<bool()>& condition) {
  bool held = condition();
  if (held) return true;
  const auto poll = loop.every(std::chrono::milliseconds(1), [&] {
    held = condition();
    if (held) loop.stop();
  });
  const auto deadline = loop.after(kPatience, [&] { loop.stop(); });
  loop.run();
  return held;
}

inline void run_for(EventLoop& loop, std::chrono::milliseconds time) {
  const auto deadline = loop.after(time, [&] { loop.stop(); });
  loop.run();
}

}  // namespace lynx
