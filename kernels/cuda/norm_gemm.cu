// See norm_gemm.h. A cluster has 16 rows and a run of outputs. Its blocks share out k as those of
// skinny_gemm.cu do, and a warp has 64 of it: so much of the rows stays in registers from f32 to bf16. The
// blocks send one another the squares of their k, and what they multiplied to the block that adds it up.
//
// The code runs once a layer, from a cold instruction cache: one kernel serves any number of rows.
#include "kernels/cuda/norm_gemm.h"

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_gemm_parts.cuh"
#include "kernels/cuda/rows.h"

namespace lynx::cuda {
namespace norm {
namespace {

constexpr unsigned kMostOutputs = 512;

// Room for one block a multiprocessor: blocks that share one take each other's time. More blocks than a
// device holds in that way must share.
constexpr std::size_t kSpread = 100 * 1024;
constexpr unsigned kFewBlocks = 64;

template <unsigned kGroups, unsigned kUnits>
__global__ void __launch_bounds__(kGroups* kWarp) norm_gemm_kernel(const __grid_constant__ Params p) {
  using Of = Block<kGroups, kUnits>;
  __shared__ Of shared;
  release_dependents();
  const unsigned blocks = p.blocks;
  const Share s(kGroups);
  if (threadIdx.x == 0) {
    shared.squares.expect(p.k / kSquareGroup * kRows * sizeof(float));
    shared.sums.expect((p.pairs + (s.rank < p.more ? 1 : 0)) * blocks * kChains * Of::kSums * sizeof(float));
  }
  cluster_arrive_relaxed();
  if (s.rank >= blocks) return grid_dependency_wait();
  // Not by loads of constants, which the compiler would move behind the wait.
  const unsigned unit = s.warp / kChains * kUnits;
  uint4 weights[kUnits][kGroups];
#pragma unroll
  for (unsigned u = 0; u < kUnits; ++u) {
    const unsigned output = (blockIdx.y * Of::kUnitsOfAll + unit + u) * kUnit + s.g;
    const std::uint16_t* from =
        p.weights + min(output, p.n - 1) * p.k + s.rank * kGroups * kSlice + s.chain * kStep + s.q * 8;
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) weights[u][i] = load_streaming(from + i * kSlice);
  }
  float norm_weight[2][8];
#pragma unroll
  for (unsigned i = 0; i < 2; ++i) load8(norm_weight[i], p.norm_weight + s.k + i * kStep);
  const unsigned live = live_count(p.live_rows, p.rows);

  grid_dependency_wait();
  Rows x(p, s);
  const float squares[2] = {squares_of_group(x.of[0]), squares_of_group(x.of[1])};
  cluster_wait();
  float* const of_group =
      &shared.of_group[s.group / kGroupsOfChunk][s.group % kGroupsOfChunk * kRows + 2 * s.g];
  for (unsigned block = s.q; block < blocks; block += 4)
    Sender(shared.squares, of_group, block).send(0, squares[0], squares[1]);
  shared.squares.await();
  store_normed(shared.rows, p, s, x, norm_weight, add_squares(shared.of_group, p.k / kSquareGroup, s), live);
  __syncthreads();

  float sums[kUnits][4] = {};
#pragma unroll
  for (unsigned i = 0; i < kGroups; ++i) {
    const uint4* const pair = shared.rows + (2 * i + s.chain) * 2 * kWarp + threadIdx.x % kWarp;
    const uint4 a = pair[0];
    const uint4 b = pair[kWarp];
#pragma unroll
    for (unsigned u = 0; u < kUnits; ++u)
      mma_16816(sums[u], a.x, a.y, a.z, a.w, weights[u][i].x, weights[u][i].y);
#pragma unroll
    for (unsigned u = 0; u < kUnits; ++u)
      mma_16816(sums[u], b.x, b.y, b.z, b.w, weights[u][i].z, weights[u][i].w);
  }
  // Pair g is block g's, in turn.
  unsigned owner = s.g;
  unsigned part = s.rank;
  for (; owner >= blocks; owner -= blocks) part += blocks;
  const Sender sender(shared.sums, shared.parts[part][s.chain], owner);
#pragma unroll
  for (unsigned u = 0; u < kUnits; ++u) sender.send4((unit + u) * kPairSums + s.q * 4, sums[u]);

  part = 0;
  for (unsigned pair = s.rank; pair < kPairs; pair += blocks, part += blocks) {
    for (unsigned i = threadIdx.x; i < Of::kSums; i += Of::kThreads) {
      shared.sums.await();
      float sum = 0;
#pragma unroll
      for (unsigned b = 0; b < kMaxCluster; ++b)
        if (b < blocks) sum += shared.parts[part + b][0][i] + shared.parts[part + b][1][i];
      const unsigned row = blockIdx.z * kRows + pair + i / 2 % 2 * kPairs;
      const unsigned output =
          blockIdx.y * Of::kUnitsOfAll * kUnit + i / kPairSums * kUnit + i / 4 % 4 * 2 + i % 2;
      if (row < live && output < p.n) p.out[row * p.out_stride + output] = sum;
    }
  }
}

template <unsigned kGroups, unsigned kUnits>
void launch_groups(const NormGemmArgs& a, cudaStream_t stream) {
  using Of = Block<kGroups, kUnits>;
  constexpr unsigned kOutputs = Of::kUnitsOfAll * kUnit;
  const unsigned blocks = a.x.cols / (kGroups * kSlice);
  const unsigned cluster = std::max(blocks, 2U);  // a single block is none: its counted stores fail
  Shape shape = {.grid = {cluster, (a.out.cols + kOutputs - 1) / kOutputs, (a.x.rows + kRows - 1) / kRows},
                 .block = {Of::kThreads, 1, 1},
                 .shared_bytes = 0,
                 .cluster = cluster};
  if (shape.grid.x * shape.grid.y * shape.grid.z <= kFewBlocks) shape.shared_bytes = kSpread;
  const Params params = {.out = reinterpret_cast<float*>(a.out.data),
                         .normed = reinterpret_cast<std::uint16_t*>(a.normed.data),
                         .x = reinterpret_cast<const float*>(a.x.data),
                         .norm_weight = reinterpret_cast<const float*>(a.norm_weight.data),
                         .weights = a.weights,
                         .live_rows = a.live_rows,
                         .out_stride = static_cast<unsigned>(a.out.stride),
                         .normed_stride = static_cast<unsigned>(a.normed.stride),
                         .x_stride = static_cast<unsigned>(a.x.stride),
                         .rows = a.x.rows,
                         .n = a.out.cols,
                         .k = a.x.cols,
                         .eps = a.eps,
                         .blocks = blocks,
                         .pairs = kPairs / blocks,
                         .more = kPairs % blocks};
  launch("norm_gemm", norm_gemm_kernel<kGroups, kUnits>, shape, stream, Overlap::kPrevious, params);
}

}  // namespace
}  // namespace norm

bool norm_gemm_takes(const NormGemmArgs& a) {
  const std::uint32_t n = a.out.cols;
  const std::uint32_t k = a.x.cols;
  return a.kernels == KernelSet::kHopper && a.out.dtype == Dtype::kF32 && a.normed.dtype == Dtype::kBf16 &&
         a.x.rows <= kSkinnyRows && n <= norm::kMostOutputs && skinny_gemm_takes(n, k) &&
         k % skinny::block_k_of(n, k) == 0;
}

void norm_gemm(const NormGemmArgs& a, cudaStream_t stream) {
  if (!norm_gemm_takes(a)) return norm_gemm_apart(a, stream);
  if (skinny::block_k_of(a.out.cols, a.x.cols) == 4 * norm::kSlice)
    return norm::launch_groups<4, 2>(a, stream);
  norm::launch_groups<8, 2>(a, stream);
}

void norm_gemm_apart(const NormGemmArgs& a, cudaStream_t stream) {
  rms_norm({.out = a.normed, .x = a.x, .weight = a.norm_weight, .eps = a.eps, .live_rows = a.live_rows},
           stream);
  skinny_gemm({.out = a.out,
               .x = a.normed,
               .weights = a.weights,
               .add = false,
               .live_rows = a.live_rows,
               .kernels = a.kernels},
              stream);
}

}  // namespace lynx::cuda
