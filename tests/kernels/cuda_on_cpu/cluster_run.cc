#include "tests/kernels/cuda_on_cpu/cluster_run.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/kernels/cuda_on_cpu/stacks.h"

namespace lynx::on_cpu {
namespace {

constexpr std::byte kNeverWritten{0xCD};
constexpr std::byte kOfABlockThatEnded{0xEE};
constexpr std::size_t kAlign = 16;
constexpr std::size_t kBeyond = 1024;  // bytes behind a block's shared memory that must stay as they are

Stacks stacks;

// Of a run that is given up, lanes are not unwound: they may be where nothing must be thrown. What they hold
// is lost, their stacks are not.
void forget(boost::context::fiber&& lane) { static_cast<void>(new boost::context::fiber(std::move(lane))); }

}  // namespace

ClusterRun::ClusterRun(const Launch& launch, unsigned first_block, std::uint32_t seed,
                       const std::function<void()>& kernel)
    : launch_(launch),
      first_block_(first_block),
      kernel_(kernel),
      warps_of_block_(launch.threads / kWarp),
      random_(seed),
      block_bytes_((launch.shared_bytes + kBeyond + kAlign - 1) / kAlign * kAlign),
      memory_(launch.cluster * block_bytes_, kNeverWritten),
      blocks_(launch.cluster),
      warps_(std::size_t{launch.cluster} * warps_of_block_),
      lanes_(std::size_t{launch.cluster} * launch.threads),
      races_(launch.cluster, warps_of_block_),
      running_(launch.cluster * launch.threads) {
  cluster_memory = {memory_.data(), memory_.size()};
  std::fill_n(shared_variables.first, shared_variables.bytes, kNeverWritten);
  for (unsigned b = 0; b < launch.cluster; ++b) {
    blocks_[b].shared = std::span(memory_).subspan(b * block_bytes_, block_bytes_);
    blocks_[b].running = launch.threads;
  }
  for (unsigned i = 0; i < lanes_.size(); ++i) {
    lanes_[i].block = i / launch.threads;
    lanes_[i].thread = i % launch.threads;
    lanes_[i].agent.warp = i / kWarp;
    lanes_[i].fiber = boost::context::fiber(std::allocator_arg, stacks.at(i), Stacks::Keep(),
                                            [this](boost::context::fiber&& scheduler) {
                                              scheduler_ = std::move(scheduler);
                                              try {
                                                kernel_();
                                              } catch (...) {
                                                fault_ = std::current_exception();
                                              }
                                              end_lane();
                                              return std::move(scheduler_);
                                            });
  }
}

ClusterRun::~ClusterRun() {
  cluster_memory = {};
  for (Lane& lane : lanes_)
    if (!lane.ended) forget(std::move(lane.fiber));
}

void ClusterRun::run() {
  draw_schedule();
  while (running_ > 0 || !mail_.empty()) {
    Warp* const warp = next_warp();
    if (warp != nullptr)
      take_turn(*warp);
    else if (!mail_.empty())
      turns_ = std::max(turns_, mail_.top().due);  // nobody else moves time
    else
      explain_deadlock();
    ++turns_;
    deliver_mail();
    if (fault_ != nullptr) std::rethrow_exception(fault_);
  }
}

void ClusterRun::draw_schedule() {
  patience_ = 1U << random_() % 12;
  by_block_ = random_() % 2 == 0;
  mail_delay_ = 1U << random_() % 12;
  constexpr std::array<unsigned, 4> kAccesses{0, 20, 200, 2000};
  accesses_ = kAccesses[random_() % kAccesses.size()];
  draw_accesses();
  for (unsigned b = 0; b < launch_.cluster; ++b) block_priority_.push_back(random_() & 0xFFFFU);
  for (unsigned w = 0; w < warps_.size(); ++w) warps_[w].priority = draw_priority(w);
}

std::uint32_t ClusterRun::draw_priority(unsigned warp) {
  const std::uint32_t own = random_() & 0xFFFFU;
  return by_block_ ? block_priority_[warp / warps_of_block_] << 16 | own : own;
}

bool ClusterRun::can_run(const Warp& warp) const {
  const std::size_t first = static_cast<std::size_t>(&warp - warps_.data()) * kWarp;
  for (std::size_t i = first; i < first + kWarp; ++i)
    if (can_run(lanes_[i])) return true;
  return false;
}

Warp* ClusterRun::next_warp() {
  Warp* best = nullptr;
  for (Warp& warp : warps_) {
    if (warp.asleep_at == changes_ || (best != nullptr && warp.priority <= best->priority)) continue;
    if (can_run(warp))
      best = &warp;
    else
      warp.asleep_at = changes_;
  }
  return best;
}

// Each lane that can goes on, once, in an order drawn by its first and its step.
void ClusterRun::take_turn(Warp& warp) {
  const auto index = static_cast<unsigned>(&warp - warps_.data());
  const std::uint32_t draw = random_();
  const unsigned step = (draw >> 8) * 2 + 1;
  for (unsigned i = 0, l = draw; i < kWarp && fault_ == nullptr; ++i, l += step) {
    Lane& lane = lanes_[std::size_t{index} * kWarp + l % kWarp];
    if (can_run(lane)) resume(lane);
  }
  if ((draw >> 16) % patience_ != 0) return;
  const unsigned other = draw % 2 == 0 ? index : random_() % static_cast<unsigned>(warps_.size());
  if (by_block_) block_priority_[other / warps_of_block_] = random_() & 0xFFFFU;
  for (unsigned w = 0; w < warps_.size(); ++w)
    if (w == other || (by_block_ && w / warps_of_block_ == other / warps_of_block_))
      warps_[w].priority = draw_priority(w);
}

void ClusterRun::resume(Lane& lane) {
  lane.word = nullptr;
  lane_ = &lane;
  thread_index.x = lane.thread;
  block_index.x = first_block_ + lane.block;
  lane.fiber = std::move(lane.fiber).resume();
  lane_ = nullptr;
}

void ClusterRun::end_lane() {
  lane().ended = true;
  --running_;
  if (fault_ == nullptr && lane().has_arrived)
    give_up("a thread ends that has yet to wait at the cluster's barrier");
  if (--block().running == 0) end_block();
  release_cluster();  // which waits for those that have not ended
}

void ClusterRun::end_block() {
  const std::span<std::byte> shared = block().shared;
  const auto beyond = shared.subspan(launch_.shared_bytes);
  if (fault_ == nullptr && std::ranges::any_of(beyond, [](std::byte b) { return b != kNeverWritten; }))
    give_up("a block wrote past the end of its shared memory");
  std::ranges::fill(shared, kOfABlockThatEnded);
}

void ClusterRun::give_up(const std::string& why) { fault_ = std::make_exception_ptr(std::logic_error(why)); }

void ClusterRun::deliver_mail() {
  while (!mail_.empty() && mail_.top().due <= turns_) {
    const Mail mail = mail_.top();
    mail_.pop();
    if (blocks_[mail.block].running == 0) throw std::logic_error("mail for a block that has ended");
    mail.arrival();
    ++changes_;
  }
}

void ClusterRun::explain_deadlock() const {
  unsigned at_block = 0;
  unsigned in_warp = 0;
  for (const Lane& lane : lanes_) {
    at_block += !lane.ended && lane.word == &blocks_[lane.block].barriers[0].round ? 1 : 0;
    in_warp +=
        !lane.ended && lane.word == &warps_[lane.block * warps_of_block_ + lane.thread / kWarp].meeting.round;
  }
  throw std::logic_error("nobody can go on: " + std::to_string(running_) + " threads wait, " +
                         std::to_string(at_block) + " of them at their block's barrier, " +
                         std::to_string(in_warp) + " for lanes of their warp");
}

}  // namespace lynx::on_cpu
