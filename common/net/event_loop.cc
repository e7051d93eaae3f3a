#include "common/net/event_loop.h"

#include <csignal>

#include "common/net/asio_impl.h"
#include "common/net/byte_stream.h"

namespace lynx {
namespace {

using SteadyDuration = std::chrono::steady_clock::duration;

// The state outlives the handle while Asio still holds a handler; `alive` is what a dropped handle takes
// away.
struct TimerState {
  TimerState(asio::io_context& io, SteadyDuration every, std::function<void()> f)
      : timer(io), period(every), fire(std::move(f)) {}
  asio::steady_timer timer;
  SteadyDuration period;  // zero: once
  std::function<void()> fire;
  bool alive = true;
};

void arm(const std::shared_ptr<TimerState>& state, std::chrono::steady_clock::time_point at) {
  state->timer.expires_at(at);
  state->timer.async_wait([state, at](const boost::system::error_code& error) {
    if (error || !state->alive) return;
    if (state->period == SteadyDuration::zero()) {
      std::exchange(state->fire, nullptr)();
      return;
    }
    state->fire();
    // A late timer does not fire in a burst to catch up.
    if (state->alive) arm(state, std::max(at + state->period, std::chrono::steady_clock::now()));
  });
}

class LoopTimer final : public Timer {
 public:
  explicit LoopTimer(std::shared_ptr<TimerState> state) : state_(std::move(state)) {}
  ~LoopTimer() override {
    state_->alive = false;
    state_->timer.cancel();
  }

 private:
  std::shared_ptr<TimerState> state_;
};

struct WatchState {
  WatchState(asio::io_context& io, int fd, std::function<void()> f)
      : descriptor(io, fd), ready(std::move(f)) {}
  asio::posix::stream_descriptor descriptor;
  std::function<void()> ready;
  bool alive = true;
};

void arm(const std::shared_ptr<WatchState>& state) {
  state->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                               [state](const boost::system::error_code& error) {
                                 if (error || !state->alive) return;
                                 state->ready();
                                 if (state->alive) arm(state);
                               });
}

class LoopWatch final : public FdWatch {
 public:
  explicit LoopWatch(std::shared_ptr<WatchState> state) : state_(std::move(state)) {}
  ~LoopWatch() override {
    state_->alive = false;
    state_->descriptor.release();  // cancels, and leaves the fd to its owner
  }

 private:
  std::shared_ptr<WatchState> state_;
};

void await_signal(EventLoop::Impl& impl) {
  impl.signals.async_wait([&impl](const boost::system::error_code& error, int) {
    if (error) return;
    impl.terminate();
    await_signal(impl);
  });
}

}  // namespace

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  std::signal(SIGPIPE, SIG_IGN);  // a peer that has closed is an error value, not a signal
}

EventLoop::~EventLoop() {
  const auto last = std::move(impl_->kept);  // may hold sockets: they go while the loop is whole
}

void EventLoop::run() {
  impl_->io.run();
  impl_->io.restart();
}

void EventLoop::stop() { impl_->io.stop(); }

void EventLoop::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

std::unique_ptr<Timer> EventLoop::after(SteadyDuration delay, std::function<void()> fire) {
  auto state = std::make_shared<TimerState>(impl_->io, SteadyDuration::zero(), std::move(fire));
  arm(state, std::chrono::steady_clock::now() + delay);
  return std::make_unique<LoopTimer>(std::move(state));
}

std::unique_ptr<Timer> EventLoop::every(SteadyDuration period, std::function<void()> fire) {
  const auto at_least = std::max(period, SteadyDuration(std::chrono::microseconds(1)));
  auto state = std::make_shared<TimerState>(impl_->io, at_least, std::move(fire));
  arm(state, std::chrono::steady_clock::now() + at_least);
  return std::make_unique<LoopTimer>(std::move(state));
}

std::unique_ptr<FdWatch> EventLoop::watch_readable(int fd, std::function<void()> ready) {
  auto state = std::make_shared<WatchState>(impl_->io, fd, std::move(ready));
  arm(state);
  return std::make_unique<LoopWatch>(std::move(state));
}

void EventLoop::on_terminate(std::function<void()> fire) {
  const bool first = !impl_->terminate;
  impl_->terminate = std::move(fire);
  if (!first) return;
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
  await_signal(*impl_);
}

void keep_with_loop(EventLoop& loop, std::shared_ptr<void> work) {
  const void* key = work.get();
  loop.impl().kept.emplace(key, std::move(work));
}

void release_from_loop(EventLoop& loop, const void* work) { loop.impl().kept.erase(work); }

}  // namespace lynx
