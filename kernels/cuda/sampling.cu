// Two launches. `summarize` reads every logit once, many blocks a row: maximum, its token, normaliser,
// checks. `choose` has one block a row: greedy rows are done at once; the others find which tokens stay and
// draw.
//
// Tokens are ordered by rank: one 64-bit number of score, then token (the smaller id is better), no two
// alike; what top-k and top-p keep is all ranks from some rank up. That rank is found in two steps: a
// histogram over (top - score) / temperature tells the bin it lies in, then the bin's few tokens are compared
// one by one. A bin with too many tokens (equal logits, say) is searched by bisection on the rank.
#include "kernels/cuda/sampling.h"

#include <cfloat>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/warp.cuh"

namespace lynx::cuda {
namespace {

using Rank = unsigned long long;
using Mass = unsigned long long;  // probability over that of the best token, times 2^40

constexpr float kGreedyBelow = 1e-5F;  // as services/engine/sampler.cc
constexpr unsigned kParts = 16;        // blocks of a row in summarize
constexpr unsigned kSummaryThreads = 256;
constexpr unsigned kThreads = 1024;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kBins = 2048;
constexpr float kBinsPerTemperature = 64;  // 32 temperatures below the best a mass is 0
constexpr unsigned kListed = 1024;         // tokens of a bin that are compared one by one
constexpr unsigned kMaxTiles = 1024;       // of the draw: 1024 tokens each

// visit(logit, token) for tokens [begin, end), shared out over `count` threads of which this is `index`.
// Loads run ahead of the visits, 16 bytes each where the row's alignment allows it.
template <typename Visit>
__device__ void for_each_logit(const float* logits, unsigned begin, unsigned end, unsigned index,
                               unsigned count, const Visit& visit) {
  constexpr unsigned kBatch = 4;
  unsigned i = begin;
  if (reinterpret_cast<std::uintptr_t>(logits + begin) % sizeof(float4) == 0) {
    const unsigned whole = begin + (end - begin) / 4 * 4;
    for (; i < whole; i += 4 * kBatch * count) {
      float4 v[kBatch];
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        const unsigned at = i + 4 * (b * count + index);
        if (at < whole) v[b] = *reinterpret_cast<const float4*>(logits + at);
      }
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        const unsigned at = i + 4 * (b * count + index);
        if (at >= whole) break;
        visit(v[b].x, at);
        visit(v[b].y, at + 1);
        visit(v[b].z, at + 2);
        visit(v[b].w, at + 3);
      }
    }
    i = whole;
  }
  for (i += index; i < end; i += count) visit(logits[i], i);
}

struct Summary {  // of a stretch of logits
  float max;
  std::uint32_t token;  // of the maximum; the smallest
  float sum;            // of e^(logit - max)
  std::uint32_t bad;    // NaN or +inf among them
};

__device__ bool better(float a, std::uint32_t token_a, float b, std::uint32_t token_b) {
  return a > b || (a == b && token_a < token_b);
}

__device__ Summary combine(const Summary& a, const Summary& b) {
  const bool first = better(a.max, a.token, b.max, b.token);
  const Summary& top = first ? a : b;
  const float sum_a = a.max == -INFINITY ? 0 : a.sum * expf(a.max - top.max);
  const float sum_b = b.max == -INFINITY ? 0 : b.sum * expf(b.max - top.max);
  return {top.max, top.token, sum_a + sum_b, a.bad | b.bad};
}

__device__ Summary summary_of_warp(Summary s) {
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) {
    const Summary other = {__shfl_xor_sync(kAllLanes, s.max, mask), __shfl_xor_sync(kAllLanes, s.token, mask),
                           __shfl_xor_sync(kAllLanes, s.sum, mask), __shfl_xor_sync(kAllLanes, s.bad, mask)};
    s = combine(s, other);
  }
  return s;
}

__global__ void __launch_bounds__(kSummaryThreads)
    summarize(Summary* out, const float* logits, std::size_t stride, unsigned vocab, const SamplingRow* rows,
              const std::uint32_t* live_rows) {
  grid_dependency_wait();
  release_dependents();
  const unsigned row = blockIdx.y;
  if (row >= live_count(live_rows, gridDim.y) || rows[row].on_device == 0) return;
  logits += row * stride;
  const unsigned stretch = (vocab + kParts - 1) / kParts + 3 & ~3U;
  const unsigned begin = min(blockIdx.x * stretch, vocab);
  const unsigned end = min(begin + stretch, vocab);
  Summary s = {-INFINITY, 0xFFFFFFFFU, 0, 0};
  for_each_logit(logits, begin, end, threadIdx.x, kSummaryThreads, [&](float x, unsigned token) {
    if (!(x < INFINITY)) s.bad = 1;  // NaN too
    if (x > s.max) {                 // rarely: a few times per thread
      s.sum *= expf(s.max - x);
      s.max = x;
      s.token = token;
    }
    if (x != -INFINITY) s.sum += expf(x - s.max);
  });
  __shared__ Summary of_warp[kSummaryThreads / kWarp];
  s = summary_of_warp(s);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = s;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < kSummaryThreads / kWarp; ++w) s = combine(s, of_warp[w]);
  out[row * kParts + blockIdx.x] = s;
}

__device__ Rank rank_of(float score, unsigned token) {
  const std::uint32_t bits = __float_as_uint(score == 0 ? 0.0F : score);
  const std::uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
  return Rank{ordered} << 32 | static_cast<std::uint32_t>(~token);
}

struct Shared {
  Mass mass[kBins];  // the draw's tiles lie here too
  std::uint32_t count[kBins];
  Rank listed[kListed];
  Mass listed_mass[kListed];
  std::uint32_t list_size;
  Mass of_warp[kWarps];
  unsigned bin;  // results of searches
  Mass above;    // weight of the bins above
  Rank rank;
  Mass kept;
};
static_assert(kMaxTiles <= kBins);

// The tokens of one row that are still in the running: score at least `floor`, rank at least `from`.
struct Row {
  const float* logits;
  unsigned vocab;
  float top, per_temperature, floor;  // per_temperature: 1 / temperature
  Rank from;

  __device__ bool holds(float score, unsigned token) const {
    return score >= floor && score != -INFINITY && rank_of(score, token) >= from;
  }
  __device__ Mass mass(float score) const {
    return static_cast<Mass>(expf((score - top) * per_temperature) * 0x1p40F);
  }
  __device__ unsigned bin(float score) const {
    return static_cast<unsigned>(
        fminf((top - score) * per_temperature * kBinsPerTemperature, static_cast<float>(kBins - 1)));
  }
};

// visit(score, token) for the tokens in the running, over the whole block.
template <typename Visit>
__device__ void for_each_held(const Row& row, const Visit& visit) {
  for_each_logit(row.logits, 0, row.vocab, threadIdx.x, kThreads, [&](float score, unsigned token) {
    if (row.holds(score, token)) visit(score, token);
  });
}

// The sum over the block, for every thread.
__device__ Mass block_sum(Shared& shared, Mass value) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared.of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  Mass total = 0;
  for (const Mass m : shared.of_warp) total += m;
  return total;
}

__device__ void fill_histogram(Shared& shared, const Row& row) {
  for (unsigned b = threadIdx.x; b < kBins; b += kThreads) shared.mass[b] = shared.count[b] = 0;
  __syncthreads();
  for_each_held(row, [&](float score, unsigned) {
    const unsigned b = row.bin(score);
    atomicAdd(shared.count + b, 1U);
    const Mass mass = row.mass(score);
    if (mass != 0) atomicAdd(shared.mass + b, mass);
  });
  __syncthreads();
}

// The bin in which the sum of weights from bin 0 on reaches `target`, at least 1 and at most the sum of all.
template <typename Weight>
__device__ void find_bin(Shared& shared, const Weight* weights, Mass target) {
  constexpr unsigned kEach = kBins / kWarp;
  if (threadIdx.x < kWarp) {
    Mass own = 0;
    for (unsigned i = 0; i < kEach; ++i) own += weights[threadIdx.x * kEach + i];
    Mass through = own;
    for (unsigned step = 1; step < kWarp; step *= 2) {
      const Mass other = __shfl_up_sync(kAllLanes, through, step);
      if (threadIdx.x >= step) through += other;
    }
    Mass before = through - own;
    if (before < target && target <= through) {
      unsigned b = threadIdx.x * kEach;
      while (before + weights[b] < target) before += weights[b++];
      shared.bin = b;
      shared.above = before;
    }
  }
  __syncthreads();
}

// In the bin found: the rank down to which the bin's weight reaches `target`; weight is the mass, or 1.
__device__ void find_rank_listed(Shared& shared, const Row& row, bool by_mass, Mass target) {
  if (threadIdx.x == 0) shared.list_size = 0;
  __syncthreads();
  for_each_held(row, [&](float score, unsigned token) {
    if (row.bin(score) != shared.bin) return;
    const unsigned at = atomicAdd(&shared.list_size, 1U);
    shared.listed[at] = rank_of(score, token);
    shared.listed_mass[at] = by_mass ? row.mass(score) : 1;
  });
  __syncthreads();
  static_assert(kListed <= kThreads, "one listed token a thread");
  if (threadIdx.x < shared.list_size) {
    const Rank mine = shared.listed[threadIdx.x];
    Mass before = 0;
    for (unsigned i = 0; i < shared.list_size; ++i)
      if (shared.listed[i] > mine) before += shared.listed_mass[i];
    if (before < target && target <= before + shared.listed_mass[threadIdx.x]) {
      shared.rank = mine;
      shared.kept = before + shared.listed_mass[threadIdx.x];
    }
  }
  __syncthreads();
}

__device__ Mass weight_from(Shared& shared, const Row& row, bool by_mass, Rank from) {
  Mass weight = 0;
  for_each_held(row, [&](float score, unsigned token) {
    if (row.bin(score) == shared.bin && rank_of(score, token) >= from)
      weight += by_mass ? row.mass(score) : 1;
  });
  return block_sum(shared, weight);
}

__device__ void find_rank_bisecting(Shared& shared, const Row& row, bool by_mass, Mass target) {
  Rank low = 0;  // weight_from(low) >= target > weight_from(high)
  Rank high = ~Rank{0};
  while (high - low > 1) {
    const Rank middle = low + (high - low) / 2;
    if (weight_from(shared, row, by_mass, middle) >= target)
      low = middle;
    else
      high = middle;
  }
  const Mass kept = weight_from(shared, row, by_mass, low);
  if (threadIdx.x == 0) {
    shared.rank = low;
    shared.kept = kept;
  }
  __syncthreads();
}

// Keeps the best tokens whose weights reach `target`; returns their weight.
__device__ Mass keep_best(Shared& shared, Row& row, bool by_mass, Mass target) {
  if (by_mass)
    find_bin(shared, shared.mass, target);
  else
    find_bin(shared, shared.count, target);
  const Mass above = shared.above;
  if (shared.count[shared.bin] <= kListed)
    find_rank_listed(shared, row, by_mass, target - above);
  else
    find_rank_bisecting(shared, row, by_mass, target - above);
  row.from = shared.rank;
  const Mass kept = above + shared.kept;
  __syncthreads();
  return kept;
}

__device__ Mass total_mass(Shared& shared, const Row& row) {
  Mass own = 0;
  for_each_held(row, [&](float score, unsigned) { own += row.mass(score); });
  return block_sum(shared, own);
}

__device__ Mass histogram_mass(Shared& shared) {
  Mass own = 0;
  for (unsigned b = threadIdx.x; b < kBins; b += kThreads) own += shared.mass[b];
  return block_sum(shared, own);
}

__device__ void narrow(Shared& shared, Row& row, const SamplingRow& how) {
  const bool by_count = how.top_k > 0 && how.top_k < row.vocab;
  if (!by_count && how.top_p >= 1) return;
  fill_histogram(shared, row);
  bool cut = false;
  Mass kept = 0;
  if (by_count) {
    Mass own = 0;
    for (unsigned b = threadIdx.x; b < kBins; b += kThreads) own += shared.count[b];
    cut = how.top_k < block_sum(shared, own);
    if (cut) {
      keep_best(shared, row, false, how.top_k);
      kept = total_mass(shared, row);
    }
  }
  if (how.top_p >= 1) return;
  // Bins above that of the last token kept are whole; find_bin never gets past it, for the target is smaller
  // than the mass of what is left.
  const Mass total = cut ? kept : histogram_mass(shared);
  const auto target = static_cast<Mass>(ceil(static_cast<double>(how.top_p) * static_cast<double>(total)));
  keep_best(shared, row, true, min(max(target, Mass{1}), total));
}

// Tokens in rising order: the first at which the sum of masses exceeds uniform * total.
__device__ std::uint32_t draw(Shared& shared, const Row& row, double uniform) {
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  constexpr unsigned kTile = 1024;
  const unsigned tiles = (row.vocab + kTile - 1) / kTile;
  __syncthreads();
  for (unsigned tile = warp; tile < tiles; tile += kWarps) {
    Mass own = 0;
    for_each_logit(row.logits, tile * kTile, min((tile + 1) * kTile, row.vocab), lane, kWarp,
                   [&](float score, unsigned token) {
                     if (row.holds(score, token)) own += row.mass(score);
                   });
    own = warp_sum(own);
    if (lane == 0) shared.mass[tile] = own;
  }
  __syncthreads();
  if (warp == 0) {
    Mass total = 0;
    for (unsigned tile = lane; tile < tiles; tile += kWarp) total += shared.mass[tile];
    total = warp_sum(total);
    const Mass target = min(static_cast<Mass>(uniform * static_cast<double>(total)), total - 1);
    unsigned tile = 0;
    Mass before = 0;
    while (before + shared.mass[tile] <= target) before += shared.mass[tile++];
    for (unsigned first = tile * kTile;; first += kWarp) {
      const unsigned i = first + lane;
      const float score = i < row.vocab ? row.logits[i] : -INFINITY;
      const Mass own = i < row.vocab && row.holds(score, i) ? row.mass(score) : 0;
      Mass through = own;
      for (unsigned step = 1; step < kWarp; step *= 2) {
        const Mass other = __shfl_up_sync(kAllLanes, through, step);
        if (lane >= step) through += other;
      }
      const unsigned past = __ballot_sync(kAllLanes, before + through > target);
      if (past != 0) {
        if (lane == 0) shared.bin = first + __ffs(past) - 1;
        break;
      }
      before += __shfl_sync(kAllLanes, through, kWarp - 1);
    }
  }
  __syncthreads();
  return shared.bin;
}

__global__ void __launch_bounds__(kThreads)
    choose(SampledRow* out, const float* logits, std::size_t stride, unsigned vocab, const SamplingRow* rows,
           const Summary* summaries, const std::uint32_t* live_rows) {
  __shared__ Shared shared;
  grid_dependency_wait();
  release_dependents();
  const unsigned r = blockIdx.x;
  if (r >= live_count(live_rows, gridDim.x)) return;
  const SamplingRow how = rows[r];
  if (how.on_device == 0) return;
  Summary all = summaries[r * kParts];
  for (unsigned part = 1; part < kParts; ++part) all = combine(all, summaries[r * kParts + part]);
  if (all.bad != 0 || all.max == -INFINITY) {
    if (threadIdx.x == 0) out[r] = {0, 0, 1};
    return;
  }
  logits += r * stride;
  std::uint32_t token = all.token;
  if (how.temperature >= kGreedyBelow) {
    const float floor =
        how.min_p > 0 ? __fadd_rn(all.max, __fmul_rn(how.temperature, logf(how.min_p))) : -INFINITY;
    Row row = {logits, vocab, all.max, 1 / how.temperature, floor, 0};
    narrow(shared, row, how);
    token = draw(shared, row, how.uniform);
  }
  if (threadIdx.x == 0) out[r] = {token, logits[token] - all.max - logf(all.sum), 0};
}

}  // namespace

std::size_t sample_workspace(std::uint32_t max_rows) {
  return std::size_t{max_rows} * kParts * sizeof(Summary);
}

void sample(const SampleArgs& a, cudaStream_t stream) {
  auto* summaries = reinterpret_cast<Summary*>(a.workspace);
  const auto* logits = reinterpret_cast<const float*>(a.logits.data);
  launch("sample", summarize, {.grid = {kParts, a.logits.rows, 1}, .block = {kSummaryThreads, 1, 1}}, stream,
         Overlap::kPrevious, summaries, logits, a.logits.stride, a.logits.cols, a.rows, a.live_rows);
  launch("sample", choose, {.grid = {a.logits.rows, 1, 1}, .block = {kThreads, 1, 1}}, stream,
         Overlap::kPrevious, a.out, logits, a.logits.stride, a.logits.cols, a.rows, summaries, a.live_rows);
}

}  // namespace lynx::cuda
