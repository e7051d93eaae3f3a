// The one IO thread of a service: an event loop over Asio, kept behind this header (an Asio unit costs
// seconds to compile). Every callback runs on the thread inside run(). post() and stop() may be called from
// any thread; the rest on the loop's thread (or before run()). Nothing here throws on the data path.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace lynx {

// Cancels when destroyed: the callback then never runs. Loop thread.
class Timer {
 public:
  virtual ~Timer() = default;
};

// Stops watching when destroyed. Loop thread.
class FdWatch {
 public:
  virtual ~FdWatch() = default;
};

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void run();                             // until stop(), or until nothing is left to wait for
  void stop();                            // any thread
  void post(std::function<void()> task);  // any thread

  [[nodiscard]] std::unique_ptr<Timer> after(std::chrono::steady_clock::duration delay,
                                             std::function<void()> fire);
  [[nodiscard]] std::unique_ptr<Timer> every(std::chrono::steady_clock::duration period,
                                             std::function<void()> fire);

  // ready() each time fd is readable (level-triggered: it must consume what made it so). The fd stays the
  // caller's.
  [[nodiscard]] std::unique_ptr<FdWatch> watch_readable(int fd, std::function<void()> ready);

  // Runs on SIGTERM and SIGINT, every time one comes.
  void on_terminate(std::function<void()> fire);

  struct Impl;  // common/net/asio_impl.h, for this folder alone
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx
