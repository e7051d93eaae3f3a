// What the running lane does that others have to do with: barriers, collectives, mail, accesses to memory.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "tests/kernels/cuda_on_cpu/cluster_run.h"

namespace lynx::on_cpu {

Block& ClusterRun::block(unsigned rank) {
  if (rank >= launch_.cluster) fail("no such block in the cluster");
  return blocks_[rank];
}

void ClusterRun::draw_accesses() { accesses_left = accesses_ == 0 ? ~0U : 1 + random_() % accesses_; }

void ClusterRun::interrupt_access() {
  draw_accesses();
  if (lane_ != nullptr) give_way();
}

void ClusterRun::give_way() { scheduler_ = std::move(scheduler_).resume(); }

void ClusterRun::arrive_at(unsigned barrier, unsigned threads) {
  Barrier& at = block().barriers.at(barrier);
  release(at);
  ++at.arrived;
  if (at.complete(threads)) ++changes_;
}

void ClusterRun::wait_at(unsigned barrier, unsigned threads) {
  Barrier& at = block().barriers.at(barrier);
  const std::uint32_t round = at.round;
  arrive_at(barrier, threads);
  wait_while(at.round, round);
  races_.acquire(lane().agent, at.known_of(round));
}

void ClusterRun::cluster_arrive() {
  if (lane().has_arrived) fail("arrives at the cluster's barrier twice");
  lane().has_arrived = true;
  lane().cluster_round = cluster_.round;
  release(cluster_);
  ++cluster_.arrived;
  release_cluster();
}

void ClusterRun::release_cluster() {
  if (cluster_.complete(running_)) ++changes_;
}

void ClusterRun::cluster_wait() {
  if (!lane().has_arrived) fail("waits at the cluster's barrier without having arrived");
  lane().has_arrived = false;
  wait_while(cluster_.round, lane().cluster_round);
  races_.acquire(lane().agent, cluster_.known_of(lane().cluster_round));
}

std::span<const std::uint64_t, kWarp> ClusterRun::meet(const char* collective, std::uint64_t value) {
  Warp& w = warp();
  const std::uint32_t round = w.meeting.round;
  auto& values = w.values[round % 2];
  if (w.meeting.arrived == 0) w.collective = collective;
  if (std::string_view(w.collective) != collective) fail("lanes of a warp meet in different collectives");
  values[lane().thread % kWarp] = value;
  ++w.meeting.arrived;
  if (w.meeting.complete(kWarp))
    share_time();
  else
    wait_while(w.meeting.round, round);
  return std::span<const std::uint64_t, kWarp>(values);
}

// The lanes of a warp that meet have done what any of them has.
void ClusterRun::share_time() {
  const auto lanes = std::span(lanes_).subspan(std::size_t{lane().agent.warp} * kWarp, kWarp);
  std::uint32_t time = 0;
  for (const Lane& lane : lanes) time = std::max(time, lane.agent.time);
  for (Lane& lane : lanes) lane.agent.time = time;
}

void ClusterRun::release(Barrier& to) {
  if (to.arrived == 0) to.known_of(to.round).clear();
  races_.release(lane().agent, to.known_of(to.round));
}

// Counted from the start of the cluster's shared memory; none: it is elsewhere. Variables come last.
std::optional<std::size_t> ClusterRun::place_of(const void* at) const {
  if (shared_variables.has(at)) return memory_.size() + shared_variables.offset(at);
  const std::size_t place = cluster_memory.offset(at);
  if (place >= memory_.size() || place % block_bytes_ >= launch_.shared_bytes) return std::nullopt;
  return place;
}

// Not by an exception: none may be thrown from within an access.
void ClusterRun::give_up_if(const std::string& race, std::size_t place) {
  if (race.empty()) return;
  give_up("cluster from block " + std::to_string(first_block_) + ": a race for " +
          (place < memory_.size() ? "byte " + std::to_string(place % block_bytes_) + " of block " +
                                        std::to_string(place / block_bytes_)
                                  : "byte " + std::to_string(place - memory_.size()) + " of the variables") +
          ": " + race);
  give_way();
}

void ClusterRun::note_access(const void* at, std::size_t bytes, AccessKind kind, const void* code) {
  if (lane_ == nullptr) return;
  if (const auto place = place_of(at))
    give_up_if(races_.access(lane().agent, *place, bytes, kind, code), *place);
}

void ClusterRun::note_mail(const void* to, std::size_t bytes, const void* inbox, const void* code) {
  if (const auto place = place_of(to))
    give_up_if(races_.mail(lane().agent, *place, bytes, inbox, code), *place);
}

void ClusterRun::send(unsigned block, std::function<void()> arrival) {
  mail_.push({turns_ + 1 + random_() % mail_delay_, block, std::move(arrival)});
}

}  // namespace lynx::on_cpu
