// Runs CUDA kernels on the CPU, so that their plain C++ is tested where there is no GPU.
//
// Every thread of a cluster is a fiber. It runs until it waits (at a barrier, in a collective of its warp,
// for mail), comes to an atomic, or is interrupted at some access to memory (interruptions.cc); then the
// schedule, drawn anew for each launch, says which warp is next. It lets warps and blocks hurry ahead and lag
// behind as far as barriers allow (priorities that change at random times: Burckhardt et al., "A Randomized
// Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010); the lanes of a warp take their
// turns in any order. So what two threads do with no barrier in between happens now in one order, now in the
// other.
//
// Models: warps and the collectives of all their lanes, block and cluster barriers, dynamic shared memory (it
// starts poisoned) and that of the cluster's other blocks, words sent to other blocks (cluster.cuh's Inbox;
// they arrive late and in any order), atomics. Says what is wrong, by an exception from run(): threads that
// wait for ever, lanes that meet in different collectives, an access to another block before the cluster has
// met or after that block has ended, races for shared memory between warps (races.h), in whatever order they
// ran.
//
// Does not see: races between lanes of one warp (what one of them has waited for, all have), for global
// memory, and with what the compiler copies by a call (memcpy).
//
// Does not model: a memory order weaker than "seen at once" (fences cannot be missed here); collectives of
// some lanes, and that instructions may ask for lanes that have met (`.aligned`); launches that overlap;
// blocks of a grid that wait for one another (a cluster runs after the other); limits and banks of memory;
// time; PTX, copy engines, tensor cores.
//
// One launch at a time in a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lynx::on_cpu {

struct Launch {
  unsigned blocks = 1;
  unsigned threads = 32;  // of a block, a multiple of 32
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of a cluster
};

// Ends when all threads have. Throws std::logic_error for what a kernel must not do, and what a kernel
// throws.
void run(const Launch& launch, const std::function<void()>& kernel);

// The launches from here on have the schedules of this seed.
void seed_schedules(std::uint32_t seed);

// So far upwards from where a lane is on its stack, it finds nothing but its own, which nobody else looks at.
inline constexpr std::size_t kOwnStack = std::size_t{16} * 1024;

struct Range {
  std::byte* first = nullptr;
  std::size_t bytes = 0;

  std::size_t offset(const void* at) const {
    return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(first);
  }
  bool has(const void* at) const { return offset(at) < bytes; }
};
// The shared memory of the cluster that runs, and variables that kernels share (device_code.h).
extern Range cluster_memory;
extern const Range shared_variables;

// From here on: what a kernel may call.

struct Index {
  unsigned x = 0;
};
// Of the running thread.
extern Index thread_index, block_index, block_threads, grid_blocks;

std::byte* shared_memory();  // of the running thread's block
void block_barrier();
// One of the block's 16 barriers, for so many threads: some wait, others only say that they have come.
void arrive_at(unsigned barrier, unsigned threads);
void wait_at(unsigned barrier, unsigned threads);

// All threads of the cluster: each arrives, then waits.
void cluster_arrive();
void cluster_wait();
unsigned cluster_blocks();
unsigned cluster_rank();
// The same place in the shared memory of another block of the cluster.
void* in_block(const void* mine, unsigned block);
// Does this to that block some time later.
void send(unsigned block, std::function<void()> arrival);

// All lanes of a warp meet: the values of all, good until the lane's next collective.
std::span<const std::uint64_t, 32> meet(const char* collective, std::uint64_t value);

enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic };  // kAtomic: volatile ones, too
// Before an access to memory, by the code at that place. Only shared memory counts.
void note_access(const void* at, std::size_t bytes, AccessKind kind, const void* code);
// Mail that writes there is counted by that inbox; somebody has awaited it.
void note_mail(const void* to, std::size_t bytes, const void* inbox);
void note_heard(const void* inbox);

void give_way();
// Before an access to memory: it counts down to the next one that is interrupted.
extern std::uint32_t accesses_left;
void interrupt_access();
// Word is changed by some thread's arrival at a barrier, or by mail.
void wait_while(const std::uint32_t& word, std::uint32_t value);
[[noreturn]] void fail(const char* what);

}  // namespace lynx::on_cpu
