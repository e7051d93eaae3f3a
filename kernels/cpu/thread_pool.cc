#include "kernels/cpu/thread_pool.h"

#include <chrono>

#include "common/core/check.h"

namespace lynx {
namespace {

constexpr std::chrono::microseconds kSpin{50};

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until value differs from `old`: spins first, since the next loop of a step follows within
// microseconds.
std::uint32_t await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (const std::uint32_t now = value.load(std::memory_order_acquire); now != old) return now;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < give_up);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(unsigned threads) : next_share_(threads) {
  LYNX_CHECK(threads >= 1, "a pool has at least the caller");
  threads_.reserve(threads - 1);
  for (unsigned i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_task(Task task) {
  task_ = task;
  unfinished_.store(size(), std::memory_order_relaxed);
  next_share_.store(0, std::memory_order_release);  // from here on shares can be claimed
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  run_shares();
  std::uint32_t left = unfinished_.load(std::memory_order_acquire);
  while (left != 0) left = await_change(unfinished_, left);
}

// Compare-and-swap instead of an addition: a worker that comes late leaves the counter as it is, so it cannot
// take a number from the next round without running it.
void ThreadPool::run_shares() {
  std::uint32_t share = next_share_.load(std::memory_order_acquire);
  while (share < size()) {
    if (!next_share_.compare_exchange_weak(share, share + 1, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      continue;
    task_.call(task_.context, share);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    share = next_share_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work() {
  std::uint32_t seen = 0;
  while (true) {
    seen = await_change(round_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    run_shares();
  }
}

}  // namespace lynx
