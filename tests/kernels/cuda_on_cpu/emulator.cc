#include "tests/kernels/cuda_on_cpu/emulator.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "tests/kernels/cuda_on_cpu/cluster_run.h"

// Around the variables that kernels share (device_code.h): the linker's names.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::weak]] std::byte __start_lynx_shared[], __stop_lynx_shared[];

namespace lynx::on_cpu {
namespace {

ClusterRun* running = nullptr;
std::uint32_t next_seed = 1;

}  // namespace

std::uint32_t accesses_left = ~0U;
Range cluster_memory;
const Range shared_variables{__start_lynx_shared,
                             static_cast<std::size_t>(__stop_lynx_shared - __start_lynx_shared)};
Index thread_index, block_index, block_threads, grid_blocks;

void seed_schedules(std::uint32_t seed) { next_seed = seed; }

void run(const Launch& launch, const std::function<void()>& kernel) {
  if (launch.threads == 0 || launch.threads % kWarp != 0 || launch.cluster == 0 ||
      launch.blocks % launch.cluster != 0)
    throw std::logic_error("a launch of whole warps and whole clusters");
  block_threads.x = launch.threads;
  grid_blocks.x = launch.blocks;
  struct NoneRuns {
    ~NoneRuns() { running = nullptr; }
  } const at_end;
  for (unsigned first = 0; first < launch.blocks; first += launch.cluster) {
    ClusterRun cluster(launch, first, next_seed++, kernel);
    running = &cluster;
    cluster.run();
  }
}

void note_access(const void* at, std::size_t bytes, AccessKind kind, const void* code) {
  if (running != nullptr) running->note_access(at, bytes, kind, code);
}
void note_mail(const void* to, std::size_t bytes, const void* inbox) {
  running->note_mail(to, bytes, inbox, __builtin_return_address(0));
}
void note_heard(const void* inbox) { running->note_heard(inbox); }

std::byte* shared_memory() { return running->block().shared.data(); }
void block_barrier() { wait_at(0, running->launch().threads); }
void arrive_at(unsigned barrier, unsigned threads) { running->arrive_at(barrier, threads); }
void wait_at(unsigned barrier, unsigned threads) { running->wait_at(barrier, threads); }
void cluster_arrive() { running->cluster_arrive(); }
void cluster_wait() { running->cluster_wait(); }
unsigned cluster_blocks() { return running->launch().cluster; }
unsigned cluster_rank() { return running->lane().block; }

void* in_block(const void* mine, unsigned block) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(mine) - shared_memory());
  if (offset >= running->launch().shared_bytes) fail("maps what is not in its shared memory");
  if (!running->has_met()) fail("reaches into another block before the cluster has met");
  Block& other = running->block(block);
  if (other.running == 0) fail("reaches into a block that has ended");
  return other.shared.data() + offset;
}

void send(unsigned block, std::function<void()> arrival) { running->send(block, std::move(arrival)); }

std::span<const std::uint64_t, 32> meet(const char* collective, std::uint64_t value) {
  return running->meet(collective, value);
}

void give_way() { running->give_way(); }
void interrupt_access() {
  accesses_left = ~0U;
  if (running != nullptr) running->interrupt_access();
}

void wait_while(const std::uint32_t& word, std::uint32_t value) {
  if (word != value) return;
  running->lane().word = &word;
  running->lane().value = value;
  running->give_way();
}

void fail(const char* what) {
  throw std::logic_error("block " + std::to_string(block_index.x) + ", thread " +
                         std::to_string(thread_index.x) + ": " + what);
}

}  // namespace lynx::on_cpu
