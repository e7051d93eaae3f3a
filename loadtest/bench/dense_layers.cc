#include "loadtest/bench/dense_layers.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/cuda/norm_gemm.h"
#include "loadtest/bench/dense_operands.h"

namespace lynx::cuda {
namespace {

constexpr double kFar = 1.2e9;  // bytes between two uses of the same weights

std::uint32_t layers_for(double bytes) {
  return std::clamp(static_cast<std::uint32_t>(kFar / bytes) + 1, 2U, 64U);
}

}  // namespace

GemmLayers::GemmLayers(std::uint32_t n, std::uint32_t k, std::uint32_t rows)
    : n_(n),
      k_(k),
      layers_(layers_for(2.0 * n * k)),
      weights_(random_bf16(std::size_t{layers_} * n * k, 0.02F)),
      x_(random_bf16(std::size_t{rows} * k, 1)),
      out_(allocate_block<float>(std::size_t{rows} * n)),
      hidden_(upload_block<float>(ones(std::size_t{rows} * k))),
      norm_(upload_block<float>(ones(k))) {}

GemmArgs GemmLayers::args(std::uint32_t layer, std::uint32_t rows, bool add) const {
  return {.out = view_of(out_, rows, n_),
          .x = view_of(x_, rows, k_),
          .weights = weights_.get() + std::size_t{layer} * n_ * k_,
          .add = add,
          .live_rows = nullptr,
          .kernels = kernels_of_device()};
}

double GemmLayers::skinny_us(std::uint32_t rows, bool add) const {
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < layers_; ++i) skinny_gemm(args(i, rows, add), stream);
  };
  return graph_microseconds(all, kReplays) / layers_;
}

double GemmLayers::cached_us(std::uint32_t rows, bool add) const {
  constexpr int kLaunches = 50;
  const auto all = [&](cudaStream_t stream) {
    for (int i = 0; i < kLaunches; ++i) skinny_gemm(args(0, rows, add), stream);
  };
  return graph_microseconds(all, kReplays) / kLaunches;
}

double GemmLayers::wide_us(std::uint32_t rows, bool add) const {
  WideGemm gemm;
  gemm.run(args(0, rows, add), nullptr);
  require(cudaDeviceSynchronize(), "warm-up");
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < layers_; ++i) gemm.run(args(i, rows, add), stream);
  };
  return graph_microseconds(all, kReplays) / layers_;
}

double GemmLayers::normed_us(std::uint32_t rows, bool apart) const {
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < layers_; ++i) {
      const GemmArgs gemm = args(i, rows, false);
      const NormGemmArgs both = {.out = gemm.out,
                                 .normed = gemm.x,
                                 .x = view_of(hidden_, rows, k_),
                                 .norm_weight = view_of(norm_, 1, k_),
                                 .eps = 1e-6F,
                                 .weights = gemm.weights,
                                 .live_rows = nullptr,
                                 .kernels = gemm.kernels};
      apart ? norm_gemm_apart(both, stream) : norm_gemm(both, stream);
    }
  };
  return graph_microseconds(all, kReplays) / layers_;
}

KvLayers::KvLayers(const DenseShape& shape, std::uint32_t rows, std::uint32_t context)
    : layout_{.layers = 1,
              .blocks = 0,
              .block_tokens = 16,
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .dtype = KvDtype::kBf16},
      context_(context) {
  const std::uint32_t of_row = layout_.blocks_for(context);
  layout_.blocks = rows * of_row;
  layout_.layers = layers_for(static_cast<double>(layout_.blocks * layout_.block_bytes()));
  pool_ = allocate_block<std::byte>(layout_.pool_bytes());
  fill_random_bf16(pool_.get(), layout_.pool_bytes() / 2, 1, 3, nullptr);
  std::vector<BlockId> tables(layout_.blocks);
  std::iota(tables.begin(), tables.end(), 0U);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(1));
  tables_ = upload_block<BlockId>(tables);
  positions_ = upload_block<std::uint32_t>(std::vector<std::uint32_t>(rows, context - 1));
  first_sequence_ = upload_block<std::uint32_t>(std::vector<std::uint32_t>(context, 0));
  std::vector<std::uint32_t> all(context);
  std::iota(all.begin(), all.end(), 0U);
  all_positions_ = upload_block<std::uint32_t>(all);
}

double KvLayers::bytes_per_layer() const {
  return static_cast<double>(layout_.blocks * layout_.block_bytes());
}

StagedRows KvLayers::staged() const {
  return {.positions = positions_.get(),
          .sequence = nullptr,
          .tables = tables_.get(),
          .table_stride = layout_.blocks_for(context_),
          .live_rows = nullptr};
}

StagedRows KvLayers::all_rows() const {
  StagedRows rows = staged();
  rows.positions = all_positions_.get();
  rows.sequence = first_sequence_.get();
  return rows;
}

double decode_attention_us(const DenseShape& shape, const KvLayers& kv, std::uint32_t rows) {
  std::vector<float> random(std::size_t{rows} * shape.qkv_size());
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  for (float& value : random) value = normal(rng);
  const auto qkv = upload_block<float>(random);
  const auto rope = upload_block<float>(ones(std::size_t{kv.context()} * shape.head_dim));
  const auto out = allocate_block<std::uint16_t>(std::size_t{rows} * shape.q_size());
  const auto workspace = allocate_block<std::byte>(
      decode_attention_workspace(rows, shape.q_heads, shape.kv_heads, shape.head_dim, kv.context()));
  const TensorView in = view_of(qkv, rows, shape.qkv_size());
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv.layers(); ++i) {
      decode_attention({.out = view_of(out, rows, shape.q_size()),
                        .in = {.q = in.columns(0, shape.q_size()),
                               .k = in.columns(shape.q_size(), shape.kv_size()),
                               .v = in.columns(shape.q_size() + shape.kv_size(), shape.kv_size()),
                               .q_weight = {},
                               .k_weight = {},
                               .eps = 1e-6F,
                               .rope = view_of(rope, kv.context(), shape.head_dim),
                               .kv = kv.layer(i),
                               .rows = kv.staged()},
                        .max_context = kv.context(),
                        .workspace = workspace.get(),
                        .kernels = kernels_of_device()},
                       stream);
    }
  };
  return graph_microseconds(all, kReplays) / kv.layers();
}

double prefill_attention_us(const DenseShape& shape, const KvLayers& kv, std::uint32_t rows) {
  std::vector<PrefillTile> tiles;
  const PrefillSequence sequence = {0, rows, kv.context() - rows};
  make_prefill_tiles(tiles, {&sequence, 1}, prefill_tile_rows(shape.q_heads, shape.kv_heads));
  const auto device_tiles = upload_block<PrefillTile>(tiles);
  const auto q = upload_block<float>(std::vector<float>(std::size_t{rows} * shape.q_size(), 0.3F));
  const auto out = allocate_block<std::uint16_t>(std::size_t{rows} * shape.q_size());
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv.layers(); ++i) {
      prefill_attention({.out = view_of(out, rows, shape.q_size()),
                         .q = view_of(q, rows, shape.q_size()),
                         .kv = kv.layer(i),
                         .rows = kv.all_rows(),
                         .tiles = device_tiles.get(),
                         .tile_count = static_cast<std::uint32_t>(tiles.size())},
                        stream);
    }
  };
  return graph_microseconds(all, kReplays) / kv.layers();
}

}  // namespace lynx::cuda
