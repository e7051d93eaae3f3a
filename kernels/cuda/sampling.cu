// Two launches. `summarize` reads every logit once, a warp for each tile of a row: maximum, normaliser,
// checks. `choose` has one block a row: greedy rows are done at once; the others find which tokens stay and
// draw.
#include "kernels/cuda/sampling.h"

#include <stdexcept>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sampling_search.cuh"

namespace lynx::cuda {
namespace {

using namespace sampling;

constexpr float kGreedyBelow = 1e-5F;  // as services/engine/sampler.cc
constexpr unsigned kSummaryThreads = 256;
constexpr unsigned kSummaryWarps = kSummaryThreads / kWarp;

struct Params {
  SampledRow* out;
  const float* logits;
  std::size_t stride;
  unsigned vocab, tiles, rows;
  const SamplingRow* how;
  TileSummary* summaries;  // [rows, tiles]
  const std::uint32_t* live_rows;
};

__global__ void __launch_bounds__(kSummaryThreads) summarize(const Params p) {
  release_dependents();
  grid_dependency_wait();
  const unsigned row = blockIdx.y;
  const unsigned tile = blockIdx.x * kSummaryWarps + threadIdx.x / kWarp;
  if (row >= live_count(p.live_rows, p.rows) || tile >= p.tiles || p.how[row].on_device == 0) return;
  const float temperature = p.how[row].temperature;
  const TileSummary s =
      summarize_tile(p.logits + row * p.stride, tile * kTile, min((tile + 1) * kTile, p.vocab),
                     temperature < kGreedyBelow ? 0 : 1 / temperature);
  if (threadIdx.x % kWarp == 0) p.summaries[row * p.tiles + tile] = s;
}

struct RowSummary {
  float max, sum;
  std::uint32_t token;
  bool bad;
  Mass mass;  // of all tokens
};

// Leaves the tiles' masses in shared.weight.
__device__ RowSummary combine(Shared& shared, const Params& p, unsigned r, float per_temperature) {
  const bool exists = threadIdx.x < p.tiles;
  const TileSummary tile =
      exists ? p.summaries[r * p.tiles + threadIdx.x] : TileSummary{-INFINITY, 0, 0, 0, 0};
  RowSummary out;
  out.bad = __syncthreads_or(static_cast<int>(tile.bad)) != 0;

  Rank best = exists && tile.max != -INFINITY ? rank_of(tile.max, tile.token) : 0;
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2)
    best = max(best, __shfl_xor_sync(kAllLanes, best, mask));
  if (threadIdx.x % kWarp == 0) shared.of_warp[threadIdx.x / kWarp] = best;
  __syncthreads();
  for (const Rank of_warp : shared.of_warp) best = max(best, of_warp);
  out.token = ~static_cast<std::uint32_t>(best);
  out.max = best == 0 ? -INFINITY : score_of(best);
  __syncthreads();

  const bool counts = exists && tile.max != -INFINITY && !out.bad;
  float sum = counts ? tile.sum * expf(tile.max - out.max) : 0.0F;
  const float tempered = counts ? tile.sum_tempered * expf((tile.max - out.max) * per_temperature) : 0.0F;
  const auto mass = static_cast<Mass>(tempered * kMassOne);
  shared.weight[threadIdx.x] = mass;
  out.mass = block_sum(shared, mass);
  sum = warp_sum(sum);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared.of_warp[threadIdx.x / kWarp] = __float_as_uint(sum);
  __syncthreads();
  out.sum = 0;
  for (const Mass of_warp : shared.of_warp) out.sum += __uint_as_float(static_cast<std::uint32_t>(of_warp));
  return out;
}

__device__ void sum_tiles(Shared& shared, const Row& row, unsigned tiles) {
  __syncthreads();
  for (unsigned tile = threadIdx.x / kWarp; tile < tiles; tile += kWarps) {
    Mass own = 0;
    for_each_logit(row.logits, tile * kTile, min((tile + 1) * kTile, row.vocab), threadIdx.x % kWarp, kWarp,
                   [&](float score, unsigned token) {
                     if (row.holds(score, token)) own += row.mass(score);
                   });
    own = warp_sum(own);
    if (threadIdx.x % kWarp == 0) shared.weight[tile] = own;
  }
  __syncthreads();
}

// One warp, tokens in rising order: the first at which the sum of masses exceeds uniform * total.
__device__ void draw(Shared& shared, const Row& row, unsigned tiles, double uniform) {
  const unsigned lane = threadIdx.x % kWarp;
  Mass total = 0;
  for (unsigned tile = lane; tile < tiles; tile += kWarp) total += shared.weight[tile];
  total = warp_sum(total);
  const Mass target = min(static_cast<Mass>(uniform * static_cast<double>(total)), total - 1);
  unsigned tile = 0;
  Mass before = 0;
  while (before + shared.weight[tile] <= target) before += shared.weight[tile++];
  unsigned last = 0;  // token with a mass: the tile's own sum may have been rounded up
  for (unsigned first = tile * kTile; first < min((tile + 1) * kTile, row.vocab); first += kWarp) {
    const unsigned token = first + lane;
    const float score = token < row.vocab ? row.logits[token] : -INFINITY;
    const Mass own = token < row.vocab && row.holds(score, token) ? row.mass(score) : 0;
    const Mass through = warp_prefix_sum(own, lane);
    const unsigned past = __ballot_sync(kAllLanes, own != 0 && before + through > target);
    const unsigned any = __ballot_sync(kAllLanes, own != 0);
    if (past != 0) {
      last = first + __ffs(past) - 1;
      break;
    }
    if (any != 0) last = first + kWarp - 1 - __clz(any);
    before += __shfl_sync(kAllLanes, through, kWarp - 1);
  }
  if (lane == 0) shared.found = last;
}

__global__ void __launch_bounds__(kThreads) choose(const Params p) {
  __shared__ Shared shared;
  release_dependents();
  grid_dependency_wait();
  const unsigned r = blockIdx.x;
  if (r >= live_count(p.live_rows, p.rows)) return;
  const SamplingRow how = p.how[r];
  if (how.on_device == 0) return;
  const bool greedy = how.temperature < kGreedyBelow;
  const float per_temperature = greedy ? 0 : 1 / how.temperature;
  const RowSummary all = combine(shared, p, r, per_temperature);
  if (all.bad || all.max == -INFINITY) {
    if (threadIdx.x == 0) p.out[r] = {0, 0, 1};
    return;
  }
  const float* logits = p.logits + r * p.stride;
  std::uint32_t token = all.token;
  if (!greedy) {
    const float floor =
        how.min_p > 0 ? __fadd_rn(all.max, __fmul_rn(how.temperature, logf(how.min_p))) : -INFINITY;
    Row row = {logits, p.vocab, all.max, per_temperature, floor, 0};
    if (narrow(shared, row, how, all.mass)) sum_tiles(shared, row, p.tiles);
    if (threadIdx.x < kWarp) draw(shared, row, p.tiles, how.uniform);
    __syncthreads();
    token = shared.found;
  }
  if (threadIdx.x == 0) p.out[r] = {token, logits[token] - all.max - logf(all.sum), 0};
}

}  // namespace

std::size_t sample_workspace(std::uint32_t max_rows) {
  return std::size_t{max_rows} * kMaxTiles * sizeof(TileSummary);
}

void sample(const SampleArgs& a, cudaStream_t stream) {
  const unsigned tiles = (a.logits.cols + kTile - 1) / kTile;
  if (tiles > kMaxTiles) throw std::runtime_error("sampling on CUDA: a vocabulary of at most 1048576 tokens");
  const Params params = {.out = a.out,
                         .logits = reinterpret_cast<const float*>(a.logits.data),
                         .stride = a.logits.stride,
                         .vocab = a.logits.cols,
                         .tiles = tiles,
                         .rows = a.logits.rows,
                         .how = a.rows,
                         .summaries = reinterpret_cast<TileSummary*>(a.workspace),
                         .live_rows = a.live_rows};
  launch("sample", summarize,
         {.grid = {(tiles + kSummaryWarps - 1) / kSummaryWarps, a.logits.rows, 1},
          .block = {kSummaryThreads, 1, 1}},
         stream, Overlap::kPrevious, params);
  launch("sample", choose, {.grid = {a.logits.rows, 1, 1}, .block = {kThreads, 1, 1}}, stream,
         Overlap::kPrevious, params);
}

}  // namespace lynx::cuda
