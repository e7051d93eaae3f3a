// One cluster of blocks that runs: its state, and its schedule. See emulator.h.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/kernels/cuda_on_cpu/emulator.h"
#include "tests/kernels/cuda_on_cpu/races.h"

namespace lynx::on_cpu {

inline constexpr unsigned kWarp = 32;

// A barrier that threads come to time after time: `round` counts how often it has let them go.
struct Barrier {
  std::uint32_t round = 0;
  unsigned arrived = 0;
  Clock known[2];  // to those who have waited for a round, in turn: the next may have begun before all go on

  Clock& known_of(std::uint32_t of) { return known[of % 2]; }
  bool complete(unsigned of) {
    if (arrived == 0 || arrived < of) return false;
    arrived = 0;
    ++round;
    return true;
  }
};

struct Lane {
  boost::context::fiber fiber;
  unsigned block = 0;
  unsigned thread = 0;  // of the block
  Agent agent;
  bool ended = false;
  // It waits while *word == value; null: it can go on.
  const std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  bool has_arrived = false;  // at the cluster's barrier, in this round:
  std::uint32_t cluster_round = 0;
};

struct Warp {
  // Two, in turn: a lane may be in the next collective before all have read what came of this one.
  std::uint64_t values[2][kWarp];
  Barrier meeting;
  const char* collective = nullptr;
  std::uint32_t priority = 0;
  std::uint64_t asleep_at = 0;  // nothing in it could run then, see ClusterRun::changes_
};

struct Block {
  std::span<std::byte> shared;  // and kBeyond
  std::array<Barrier, 16> barriers;
  unsigned running = 0;  // threads
};

class ClusterRun {
 public:
  ClusterRun(const Launch& launch, unsigned first_block, std::uint32_t seed,
             const std::function<void()>& kernel);
  ~ClusterRun();
  ClusterRun(const ClusterRun&) = delete;
  ClusterRun& operator=(const ClusterRun&) = delete;
  void run();

  // By the running lane.
  Lane& lane() { return *lane_; }
  Block& block() { return blocks_[lane_->block]; }
  Warp& warp() { return warps_[lane_->block * warps_of_block_ + lane_->thread / kWarp]; }
  Block& block(unsigned rank);
  void give_way();
  void interrupt_access();
  void arrive_at(unsigned barrier, unsigned threads);
  void wait_at(unsigned barrier, unsigned threads);
  void cluster_arrive();
  void cluster_wait();
  bool has_met() const { return cluster_.round != 0; }
  std::span<const std::uint64_t, kWarp> meet(const char* collective, std::uint64_t value);
  void send(unsigned block, std::function<void()> arrival);
  void note_access(const void* at, std::size_t bytes, AccessKind kind, const void* code);
  void note_mail(const void* to, std::size_t bytes, const void* inbox, const void* code);
  void note_heard(const void* inbox) { races_.heard(lane().agent, inbox); }
  const Launch& launch() const { return launch_; }

 private:
  struct Mail {
    std::uint64_t due;
    unsigned block;
    std::function<void()> arrival;
    bool operator<(const Mail& other) const { return due > other.due; }  // the top of the queue is due first
  };

  void draw_schedule();
  void draw_accesses();
  std::uint32_t draw_priority(unsigned warp);
  Warp* next_warp();
  bool can_run(const Lane& lane) const {
    return !lane.ended && (lane.word == nullptr || *lane.word != lane.value);
  }
  bool can_run(const Warp& warp) const;
  void take_turn(Warp& warp);
  void resume(Lane& lane);
  void end_lane();
  void end_block();
  void give_up(const std::string& why);
  void share_time();
  void release(Barrier& to);
  std::optional<std::size_t> place_of(const void* at) const;
  void give_up_if(const std::string& race, std::size_t place);
  void deliver_mail();
  void release_cluster();
  [[noreturn]] void explain_deadlock() const;

  Launch launch_;
  unsigned first_block_;
  const std::function<void()>& kernel_;
  unsigned warps_of_block_;
  std::mt19937 random_;
  unsigned patience_ = 1;    // turns until some priority changes, on average
  bool by_block_ = false;    // a block's warps have much the same priority
  unsigned mail_delay_ = 1;  // turns at most
  unsigned accesses_ = 0;    // to memory from one that is interrupted to the next, at most; 0: none is
  std::vector<std::uint32_t> block_priority_;
  std::size_t block_bytes_;  // of memory, with what is beyond
  std::vector<std::byte> memory_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Lane> lanes_;
  Barrier cluster_;
  Races races_;
  unsigned running_ = 0;       // threads
  std::uint64_t changes_ = 1;  // of what lanes of other warps may wait for
  std::uint64_t turns_ = 0;
  std::priority_queue<Mail> mail_;
  Lane* lane_ = nullptr;
  boost::context::fiber scheduler_;
  std::exception_ptr fault_;
};

}  // namespace lynx::on_cpu
