// A fixed set of worker threads for data-parallel loops; the caller works too. A loop is cut into one share
// per worker, and threads claim shares: on a crowded machine the caller does the share of a worker that has
// not woken up, instead of waiting for it. Between loops a worker spins for at most 50 us, then sleeps: other
// processes need the cores. One thread at a time may call run(); no allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace lynx {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads);  // >= 1, the caller included
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }

  // body(share) once for each share in [0, size()), by whichever thread; returns when all are done. No share
  // runs twice or on two threads, so it may own scratch memory by its number. body must not throw.
  template <typename Body>
  void run(const Body& body) {
    run_task(
        {[](const void* context, unsigned share) { (*static_cast<const Body*>(context))(share); }, &body});
  }

  // body(begin, end) over contiguous shares of [0, items): which worker gets which share is fixed. With
  // parallel false everything runs on the caller (waking a worker costs more than a small loop).
  template <typename Body>
  void parallel_for(std::size_t items, bool parallel, const Body& body) {
    if (!parallel || items < 2 || threads_.empty()) {
      body(std::size_t{0}, items);
      return;
    }
    run([&](unsigned share) {
      const std::size_t begin = items * share / size();
      const std::size_t end = items * (share + 1) / size();
      if (begin < end) body(begin, end);
    });
  }

 private:
  struct Task {
    void (*call)(const void* context, unsigned share) = nullptr;
    const void* context = nullptr;
  };
  void run_task(Task task);
  void run_shares();
  void work();

  // Valid while a share of it is claimed and not finished: who has claimed one may read it.
  Task task_;
  std::atomic<std::uint32_t> next_share_{0};  // size() and above: nothing to claim
  std::atomic<std::uint32_t> unfinished_{0};  // shares
  std::atomic<std::uint32_t> round_{0};       // what sleeping workers watch
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace lynx
