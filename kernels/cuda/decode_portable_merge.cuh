// Merging in decode_portable.cu: the warps of a part, then the parts of a row.
#pragma once

#include "kernels/cuda/decode_portable_worker.cuh"

namespace lynx::cuda::decode_portable {

// A warp merges for one head; each lane owns kD / 32 consecutive elements of it.
inline constexpr unsigned kLanes = kThreads / kHeads;
static_assert(kLanes == kWarp);

template <unsigned kD>
struct Merged {
  static constexpr unsigned kEach = kD / kLanes;
  float out[kEach] = {};
  Softmax all;
};

// Turns the maxima of `count` softmaxes into the factors that bring them to the common one.
__device__ inline Softmax merge_softmaxes(float2 (*softmax)[kHeads], unsigned count) {
  const unsigned head = threadIdx.x / kLanes;
  float max = -INFINITY;
  for (unsigned i = threadIdx.x % kLanes; i < count; i += kLanes) max = fmaxf(max, softmax[i][head].x);
#pragma unroll
  for (unsigned mask = 1; mask < kLanes; mask *= 2) max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, mask));
  float sum = 0;
  for (unsigned i = threadIdx.x % kLanes; i < count; i += kLanes) {
    const float2 state = softmax[i][head];
    const float factor = rescale(state.x, max);
    sum += state.y * factor;
    softmax[i][head].x = factor;
  }
#pragma unroll
  for (unsigned mask = 1; mask < kLanes; mask *= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  __syncwarp();
  return {max, sum};
}

// Adds up `count` outputs, output i at load(i) and times the factor that merge_softmaxes left.
template <unsigned kD, typename Load>
__device__ void merge_outputs(Merged<kD>& merged, const float2 (*softmax)[kHeads], unsigned count,
                              const Load& load) {
  const unsigned head = threadIdx.x / kLanes;
#pragma unroll 4
  for (unsigned i = 0; i < count; ++i) {
    float v[Merged<kD>::kEach];
    load(v, i);
    const float factor = softmax[i][head].x;
#pragma unroll
    for (unsigned e = 0; e < Merged<kD>::kEach; ++e) merged.out[e] += v[e] * factor;
  }
}

template <unsigned kEach>
__device__ void load_cached(float (&v)[kEach], const float* from) {  // past L1: other blocks wrote it
#pragma unroll
  for (unsigned e = 0; e < kEach; e += 2) {
    const float2 two = __ldcg(reinterpret_cast<const float2*>(from + e));
    v[e] = two.x;
    v[e + 1] = two.y;
  }
}

template <unsigned kD, typename Out>
__device__ void write_out(const Params& p, const Task& task, const Merged<kD>& merged) {
  const unsigned head = task.group * kHeads + threadIdx.x / kLanes;
  if (head >= p.per_kv) return;
  const float scale = 1 / merged.all.sum;
  Out* to = reinterpret_cast<Out*>(p.out) + task.row * p.out_stride + (task.kv_head * p.per_kv + head) * kD +
            threadIdx.x % kLanes * Merged<kD>::kEach;
#pragma unroll
  for (unsigned e = 0; e < Merged<kD>::kEach; ++e) store1(to + e, merged.out[e] * scale);
}

// The warps' results into the row's output, or into the workspace; true if this block was the row's last.
template <unsigned kD, typename Out>
__device__ bool finish_part(Shared<kD>& shared, const Params& p, const Task& task, std::size_t unit,
                            unsigned parts) {
  constexpr unsigned kEach = Merged<kD>::kEach;
  const unsigned head = threadIdx.x / kLanes;
  const unsigned d = threadIdx.x % kLanes * kEach;
  Merged<kD> merged;
  merged.all = merge_softmaxes(shared.of_warp, kWarps);
  merge_outputs<kD>(merged, shared.of_warp, kWarps, [&](float(&v)[kEach], unsigned w) {
#pragma unroll
    for (unsigned e = 0; e < kEach; e += 2) {
      const float2 two = *reinterpret_cast<const float2*>(&shared.out[w][head][place(head, d + e)]);
      v[e] = two.x;
      v[e + 1] = two.y;
    }
  });
  if (parts == 1) {
    write_out<kD, Out>(p, task, merged);
    return false;
  }
  const std::size_t slot = (unit * p.parts + task.part) * kHeads + head;
#pragma unroll
  for (unsigned e = 0; e < kEach; e += 2)
    *reinterpret_cast<float2*>(p.work.out + slot * kD + d + e) = {merged.out[e], merged.out[e + 1]};
  if (d == 0) p.work.softmax[slot] = {merged.all.max, merged.all.sum};
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // the whole block's writes, which the barrier put before this
    shared.last = atomicAdd(p.work.done + unit, 1) == parts - 1;
    __threadfence();
  }
  __syncthreads();
  return shared.last;
}

template <unsigned kD, typename Out>
__device__ void merge_parts(Shared<kD>& shared, const Params& p, const Task& task, std::size_t unit,
                            unsigned parts) {
  constexpr unsigned kEach = Merged<kD>::kEach;
  if (threadIdx.x == 0) p.work.done[unit] = 0;
  const std::size_t begin = unit * p.parts * kHeads;
  for (unsigned i = threadIdx.x; i < parts * kHeads; i += kThreads)
    shared.softmax[i / kHeads][i % kHeads] = __ldcg(p.work.softmax + begin + i);
  __syncthreads();
  Merged<kD> merged;
  merged.all = merge_softmaxes(shared.softmax, parts);
  const float* from = p.work.out + (begin + threadIdx.x / kLanes) * kD + threadIdx.x % kLanes * kEach;
  merge_outputs<kD>(merged, shared.softmax, parts, [&](float(&v)[kEach], unsigned part) {
    load_cached(v, from + std::size_t{part} * kHeads * kD);
  });
  write_out<kD, Out>(p, task, merged);
}

template <unsigned kD, typename Out>
__device__ void finish_task(Shared<kD>& shared, const Params& p, const Task& task) {
  const unsigned parts = parts_of(task.context);
  const std::size_t unit = (std::size_t{task.row} * p.kv.kv_heads + task.kv_head) * p.groups + task.group;
  if (finish_part<kD, Out>(shared, p, task, unit, parts)) merge_parts<kD, Out>(shared, p, task, unit, parts);
}

}  // namespace lynx::cuda::decode_portable
