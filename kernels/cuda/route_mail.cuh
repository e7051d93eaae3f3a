// What the blocks of a routing cluster tell one another: words sent into the others' shared memory, where a
// barrier counts them (cluster.cuh). A barrier of the cluster instead would wait for all that its threads
// have written, and what it is about would have to be fetched after it.
//
// A block may leave once it has heard all that is sent to it: the votes; where rows choose again, what they
// bring; and block 0 what the others' rows retain. Whatever else is written into its memory (route_serve.cuh,
// route_fill.cuh), the cluster meets after it.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {

struct RouteMail {
  Inbox votes_in, brings_in;
  Inbox rows_in;  // block 0's: of the other blocks' rows
};

inline std::size_t route_bytes(const RouteArgs& args) {
  return route_shared_bytes(args) + (args.plan.rows > kRowsPerBlock ? sizeof(RouteMail) : 0);
}

template <bool kAlone>
class Post {
 public:
  __device__ Post(const RouteArgs& args, RouteShared& s)
      : args_(args),
        s_(s),
        mail_(*reinterpret_cast<RouteMail*>(reinterpret_cast<std::byte*>(&s) + route_shared_bytes(args))),
        rank_(kAlone ? 0 : __shfl_sync(kAllLanes, Blocks<kAlone>().rank(), 0)),
        others_(kAlone ? 0 : Blocks<kAlone>().count() - 1) {}

  // All threads, before anything is sent.
  __device__ void open() {
    if constexpr (kAlone) return;
    if (threadIdx.x == 0) {
      const std::uint32_t quads = (args_.shape.experts + 3) / 4 * static_cast<std::uint32_t>(sizeof(uint4));
      const std::uint32_t sets = args_.policy == PolicyKind::kEnergy ? 2 : 1;
      constexpr std::uint32_t kWord = sizeof(std::uint32_t);
      mail_.votes_in.expect(others_ * (sets * quads + kWord));
      mail_.brings_in.expect(others_ * quads);
      mail_.rows_in.expect(others_ * 2 * kRowsPerBlock * kWord);
    }
    if (has_experts()) {  // some of these threads for each other block, four experts a thread
      const std::uint32_t quads = (args_.shape.experts + 3) / 4;
      const std::uint32_t e = threadIdx.x - kRowThreads;
      sends_ = e < others_ * quads;
      if (sends_) {
        to_ = Peer(&s_, (rank_ + 1 + e / quads) & others_);
        quad_ = e % quads;
      }
    }
    cluster_arrive();
    cluster_wait();
  }

  static __device__ bool has_experts() { return warp_index() >= kRowsPerBlock; }

  // Warps with experts, once all rows of the block have voted: tells the others, and hears from them.
  __device__ void exchange_votes() const {
    if constexpr (kAlone) return;
    if (sends_) {
      send(mail_.votes_in, s_.votes);
      if (args_.policy == PolicyKind::kEnergy) send(mail_.votes_in, s_.energy);
      if (quad_ == 0) to_.send(mail_.votes_in, &s_.voters[rank_], s_.voters[rank_]);
    }
    mail_.votes_in.await();
  }

  // The same once all rows of the block have chosen.
  __device__ void exchange_brings() const {
    if constexpr (kAlone) return;
    if (sends_) send(mail_.brings_in, s_.brings);
    mail_.brings_in.await();
  }

  // One lane of each row, for block 0's statistics.
  __device__ void tell_row(std::uint32_t index, std::uint32_t retained, std::uint32_t remapped) const {
    if (rank_ == 0) {
      s_.retained[index] = retained;
      s_.remapped[index] = remapped;
      return;
    }
    mail_.rows_in.send(&s_.retained[index], 0, retained);
    mail_.rows_in.send(&s_.remapped[index], 0, remapped);
  }
  // Block 0; its own rows have said so before a barrier of the block.
  __device__ void hear_rows() const {
    if constexpr (!kAlone) mail_.rows_in.await();
  }

  __device__ std::uint32_t rank() const { return rank_; }

 private:
  __device__ void send(const Inbox& inbox, std::uint32_t (&words)[kMostBlocks][kMaxRouteExperts]) const {
    auto* const mine = reinterpret_cast<uint4*>(words[rank_]) + quad_;
    to_.send(inbox, mine, *mine);
  }

  const RouteArgs& args_;
  RouteShared& s_;
  RouteMail& mail_;
  std::uint32_t rank_;
  std::uint32_t others_;  // how many; the mask of a rank, too
  bool sends_ = false;
  std::uint32_t quad_ = 0;
  Peer to_;
};

}  // namespace lynx::cuda
