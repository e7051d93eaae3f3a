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

ThreadPool::ThreadPool(unsigned threads) {
  LYNX_CHECK(threads >= 1, "a pool has at least the caller");
  threads_.reserve(threads - 1);
  for (unsigned worker = 1; worker < threads; ++worker)
    threads_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_task(Task task) {
  task_ = task;
  pending_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  task.call(task.context, 0);
  std::uint32_t left = pending_.load(std::memory_order_acquire);
  while (left != 0) left = await_change(pending_, left);
}

void ThreadPool::work(unsigned worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = await_change(generation_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    task_.call(task_.context, worker);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

}  // namespace lynx
