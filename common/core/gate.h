// A service closes through a gate: once closed it admits nothing new, and on_idle runs when the last holder
// has left. One thread (the service's IO thread).
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace lynx {

class Gate {
 public:
  // False once closed: refuse the work.
  bool try_enter() {
    if (closed_) return false;
    ++holders_;
    return true;
  }

  void leave() {
    --holders_;
    notify_if_idle();
  }

  // on_idle runs exactly once: now, when nobody is inside, or when the last holder leaves.
  void close(std::function<void()> on_idle) {
    closed_ = true;
    on_idle_ = std::move(on_idle);
    notify_if_idle();
  }

  bool closed() const { return closed_; }
  std::size_t holders() const { return holders_; }

 private:
  void notify_if_idle() {
    if (!closed_ || holders_ != 0 || !on_idle_) return;
    std::exchange(on_idle_, nullptr)();
  }

  std::size_t holders_ = 0;
  bool closed_ = false;
  std::function<void()> on_idle_;
};

}  // namespace lynx
