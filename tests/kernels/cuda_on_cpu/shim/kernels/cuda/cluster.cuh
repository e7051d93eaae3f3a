// In place of kernels/cuda/cluster.cuh, which is PTX: its promises, kept by the emulator.
#pragma once

#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace lynx::cuda {

inline unsigned cluster_rank() { return on_cpu::cluster_rank(); }
inline void cluster_arrive() { on_cpu::cluster_arrive(); }
inline void cluster_wait() { on_cpu::cluster_wait(); }

inline void arrive_at(unsigned barrier, unsigned threads) { on_cpu::arrive_at(barrier, threads); }
inline void wait_at(unsigned barrier, unsigned threads) { on_cpu::wait_at(barrier, threads); }

class Inbox {
 public:
  void expect(std::uint32_t bytes) {
    opened_ = kOpened;
    left_ = bytes;
    waits_ = bytes == 0 ? 0 : 1;
  }
  void await() {
    require_open();
    on_cpu::wait_while(waits_, 1);
    on_cpu::note_heard(this);
  }

  template <typename T>
  void send(T* to, unsigned block, T value) const {
    auto* const there = static_cast<T*>(on_cpu::in_block(to, block));
    auto* const inbox = static_cast<Inbox*>(on_cpu::in_block(this, block));
    on_cpu::note_mail(there, sizeof value, inbox);
    on_cpu::send(block, [=] {
      inbox->count(sizeof value);
      *there = value;
    });
  }

 private:
  static constexpr std::uint32_t kOpened = 0x1B0C5;  // shared memory starts otherwise

  void require_open() const {
    if (opened_ != kOpened) on_cpu::fail("an inbox that nobody has told what to expect");
  }
  void count(std::uint32_t bytes) {
    require_open();
    if (bytes > left_) on_cpu::fail("an inbox gets more than it expects");
    left_ -= bytes;
    if (left_ == 0) waits_ = 0;
  }

  std::uint32_t opened_, left_, waits_;
};

class Peer {
 public:
  Peer() = default;
  Peer(const void*, unsigned block) : block_(block) {}
  template <typename T>
  void send(const Inbox& inbox, T* to, T value) const {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof value != 0) on_cpu::fail("a store that is not aligned");
    inbox.send(to, block_, value);
  }

 private:
  unsigned block_ = ~0U;
};

}  // namespace lynx::cuda
