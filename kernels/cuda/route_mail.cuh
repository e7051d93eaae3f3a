// What the blocks of a routing cluster tell one another: words sent into the others' shared memory, where a
// barrier counts them (cluster.cuh). A barrier of the cluster instead would wait for all that its threads
// have written, and what it is about would have to be fetched after it.
//
// A block may leave once it has heard from all others who takes which expert: they say so after they have
// looked into its memory for the last time.
#pragma once

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/route_shared.cuh"

namespace lynx::cuda {

struct RouteMail {  // [of which block]: what its RouteShared has
  Inbox votes_in, used_in;
  Inbox rows_in;  // block 0's: of the other blocks' rows
  std::uint32_t votes[kMostBlocks][kMaxRouteExperts];
  std::uint32_t energy[kMostBlocks][kMaxRouteExperts];
  std::uint32_t used[kMostBlocks][kMaxRouteExperts];
  std::uint32_t routed[kMostBlocks][kActiveWords];
  std::uint32_t voters[kMostBlocks];
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
        mail_(*reinterpret_cast<RouteMail*>(reinterpret_cast<std::byte*>(&s) + route_shared_bytes(args))) {}

  // All threads, before anything is sent.
  __device__ void open() const {
    if constexpr (kAlone) return;
    if (threadIdx.x == 0) {
      const std::uint32_t others = (blocks_.count() - 1) * static_cast<std::uint32_t>(sizeof(std::uint32_t));
      const std::uint32_t sets = args_.policy == PolicyKind::kEnergy ? 2 : 1;
      mail_.votes_in.expect(others * (sets * args_.shape.experts + 1));
      mail_.used_in.expect(others * args_.shape.experts);
      mail_.rows_in.expect(others * (2 * kRowsPerBlock + kActiveWords));
    }
    cluster_arrive();
    cluster_wait();
  }

  // All threads, when their row has voted.
  __device__ void tell_votes() const {
    if constexpr (kAlone) return;
    __syncthreads();
    const std::uint32_t e = threadIdx.x;
    others([&](std::uint32_t b) {
      if (e < args_.shape.experts) {
        mail_.votes_in.send(&mail_.votes[rank()][e], b, s_.votes[e]);
        if (args_.policy == PolicyKind::kEnergy)
          mail_.votes_in.send(&mail_.energy[rank()][e], b, s_.energy[e]);
      }
      if (e == 0) mail_.votes_in.send(&mail_.voters[rank()], b, s_.voters);
    });
  }
  __device__ void hear_votes() const {
    if constexpr (kAlone)
      __syncthreads();
    else
      mail_.votes_in.await();
  }

  // All threads, when their row has chosen.
  __device__ void tell_used() const {
    if constexpr (kAlone) return;
    __syncthreads();
    const std::uint32_t e = threadIdx.x;
    if (e < args_.shape.experts)
      others([&](std::uint32_t b) { mail_.used_in.send(&mail_.used[rank()][e], b, s_.used[e]); });
    if (rank() != 0 && e < kActiveWords) mail_.rows_in.send(&mail_.routed[rank()][e], 0, s_.routed[e]);
  }
  __device__ void hear_used() const {
    if constexpr (kAlone)
      __syncthreads();
    else
      mail_.used_in.await();
  }

  // One lane of each row, for block 0's statistics.
  __device__ void tell_row(std::uint32_t index, std::uint32_t retained, std::uint32_t remapped) const {
    if (kAlone || rank() == 0) {
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

  // What block b says, once it has been heard.
  __device__ std::uint32_t votes(std::uint32_t b, std::uint32_t e) const {
    return own(b) ? s_.votes[e] : mail_.votes[b][e];
  }
  __device__ std::uint32_t energy(std::uint32_t b, std::uint32_t e) const {
    return own(b) ? s_.energy[e] : mail_.energy[b][e];
  }
  __device__ std::uint32_t used(std::uint32_t b, std::uint32_t e) const {
    return own(b) ? s_.used[e] : mail_.used[b][e];
  }
  __device__ std::uint32_t routed(std::uint32_t b, std::uint32_t word) const {
    return own(b) ? s_.routed[word] : mail_.routed[b][word];
  }
  __device__ std::uint32_t voters(std::uint32_t b) const { return own(b) ? s_.voters : mail_.voters[b]; }

  template <typename Visit>
  __device__ void each(const Visit& visit) const {
    blocks_.each(visit);
  }
  __device__ std::uint32_t rank() const { return blocks_.rank(); }

 private:
  __device__ bool own(std::uint32_t b) const { return kAlone || b == rank(); }
  template <typename Tell>
  __device__ void others(const Tell& tell) const {
#pragma unroll 1
    for (std::uint32_t i = 1; i < blocks_.count(); ++i) tell((rank() + i) & (blocks_.count() - 1));
  }

  const RouteArgs& args_;
  RouteShared& s_;
  RouteMail& mail_;
  Blocks<kAlone> blocks_;
};

}  // namespace lynx::cuda
