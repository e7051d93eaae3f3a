// A fixed set of worker threads for data-parallel loops. The caller is worker 0 and works too. Between loops
// a worker spins for at most 50 us, then sleeps: other processes share the cores. One thread at a time may
// call run(); no allocation.
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

  // body(worker) once on each worker; returns when all are done. body must not throw.
  template <typename Body>
  void run(const Body& body) {
    run_task(
        {[](const void* context, unsigned worker) { (*static_cast<const Body*>(context))(worker); }, &body});
  }

  // body(begin, end) over contiguous shares of [0, items): which worker gets which share is fixed. With
  // parallel false everything runs on the caller (waking a worker costs more than a small loop).
  template <typename Body>
  void parallel_for(std::size_t items, bool parallel, const Body& body) {
    if (!parallel || items < 2 || threads_.empty()) {
      body(std::size_t{0}, items);
      return;
    }
    run([&](unsigned worker) {
      const std::size_t begin = items * worker / size();
      const std::size_t end = items * (worker + 1) / size();
      if (begin < end) body(begin, end);
    });
  }

 private:
  struct Task {
    void (*call)(const void* context, unsigned worker) = nullptr;
    const void* context = nullptr;
  };
  void run_task(Task task);
  void work(unsigned worker);

  Task task_;  // published by generation_
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::uint32_t> pending_{0};  // workers that have not finished the task
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace lynx
