#include "loadtest/bench/dense_layers.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/bench/device_roofline.h"
#include "kernels/cuda/rope_store.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampling.h"

namespace lynx::cuda {
namespace {

constexpr unsigned kReplays = 15;
constexpr double kFar = 1.2e9;  // bytes between two uses of the same weights

std::uint32_t layers_for(double bytes) {
  return std::clamp(static_cast<std::uint32_t>(kFar / bytes) + 1, 2U, 64U);
}

DeviceBlock<std::uint16_t> random_bf16(std::size_t count, float spread) {
  auto block = allocate_block<std::uint16_t>(count);
  fill_random_bf16(block.get(), count, spread, count, nullptr);
  return block;
}

template <typename T>
TensorView view_of(const DeviceBlock<T>& block, std::uint32_t rows, std::uint32_t cols,
                   std::size_t first = 0) {
  return {reinterpret_cast<std::byte*>(block.get() + first), sizeof(T) == 4 ? Dtype::kF32 : Dtype::kBf16,
          rows, cols, cols};
}

std::vector<float> ones(std::size_t count) { return std::vector<float>(count, 1.0F); }

}  // namespace

GemmLayers::GemmLayers(std::uint32_t n, std::uint32_t k, std::uint32_t rows)
    : n_(n),
      k_(k),
      layers_(layers_for(2.0 * n * k)),
      weights_(random_bf16(std::size_t{layers_} * n * k, 0.02F)),
      x_(random_bf16(std::size_t{rows} * k, 1)),
      out_(allocate_block<float>(std::size_t{rows} * n)) {}

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
  std::vector<float> random(std::size_t{rows} * shape.q_size());
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  for (float& value : random) value = normal(rng);
  const auto q = upload_block<float>(random);
  const auto out = allocate_block<std::uint16_t>(random.size());
  const auto workspace = allocate_block<std::byte>(
      decode_attention_workspace(rows, shape.q_heads, shape.kv_heads, shape.head_dim, kv.context()));
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv.layers(); ++i) {
      decode_attention({.out = view_of(out, rows, shape.q_size()),
                        .q = view_of(q, rows, shape.q_size()),
                        .kv = kv.layer(i),
                        .rows = kv.staged(),
                        .max_context = kv.context(),
                        .workspace = workspace.get()},
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

DenseChain::DenseChain(const DenseShape& s, const KvLayers& kv)
    : shape_(s),
      kv_(kv),
      qkv_(random_bf16(std::size_t{kv.layers()} * s.qkv_size() * s.hidden, 0.02F)),
      o_(random_bf16(std::size_t{kv.layers()} * s.hidden * s.q_size(), 0.02F)),
      router_(random_bf16(std::size_t{kv.layers()} * s.experts * s.hidden, 0.02F)),
      normed_(allocate_block<std::uint16_t>(std::size_t{kSkinnyRows} * s.hidden)),
      attended_(allocate_block<std::uint16_t>(std::size_t{kSkinnyRows} * s.q_size())),
      hidden_(upload_block<float>(ones(std::size_t{kSkinnyRows} * s.hidden))),
      qkv_out_(allocate_block<float>(std::size_t{kSkinnyRows} * s.qkv_size())),
      logits_(allocate_block<float>(std::size_t{kSkinnyRows} * s.experts)),
      norms_(upload_block<float>(ones(s.hidden))),
      rope_(upload_block<float>(ones(std::size_t{kv.context()} * s.head_dim))),
      workspace_(allocate_block<std::byte>(
          decode_attention_workspace(kSkinnyRows, s.q_heads, s.kv_heads, s.head_dim, kv.context()))) {}

double DenseChain::bytes(std::uint32_t rows) const {
  const double weights = 2.0 * shape_.hidden * (shape_.qkv_size() + shape_.q_size() + shape_.experts);
  return weights + 4.0 * rows * kv_.context() * shape_.kv_size();
}

void DenseChain::layer(std::uint32_t i, std::uint32_t rows, cudaStream_t stream) const {
  const DenseShape& s = shape_;
  const TensorView hidden = view_of(hidden_, rows, s.hidden);
  const TensorView normed = view_of(normed_, rows, s.hidden);
  const TensorView qkv = view_of(qkv_out_, rows, s.qkv_size());
  const TensorView attended = view_of(attended_, rows, s.q_size());
  const TensorView norm = view_of(norms_, 1, s.hidden);
  const RmsNormArgs norm_args = {
      .out = normed, .x = hidden, .weight = norm, .eps = 1e-6F, .live_rows = nullptr};
  const auto product = [&](TensorView out, TensorView x, const DeviceBlock<std::uint16_t>& weights,
                           bool add) {
    skinny_gemm({.out = out,
                 .x = x,
                 .weights = weights.get() + std::size_t{i} * out.cols * x.cols,
                 .add = add,
                 .live_rows = nullptr,
                 .kernels = kernels_of_device()},
                stream);
  };
  rms_norm(norm_args, stream);
  product(qkv, normed, qkv_, false);
  rope_store({.q = qkv.columns(0, s.q_size()),
              .k = qkv.columns(s.q_size(), s.kv_size()),
              .v = qkv.columns(s.q_size() + s.kv_size(), s.kv_size()),
              .q_weight = view_of(norms_, 1, s.head_dim),
              .k_weight = view_of(norms_, 1, s.head_dim),
              .eps = 1e-6F,
              .rope = view_of(rope_, kv_.context(), s.head_dim),
              .kv = kv_.layer(i),
              .rows = kv_.staged()},
             stream);
  decode_attention({.out = attended,
                    .q = qkv.columns(0, s.q_size()),
                    .kv = kv_.layer(i),
                    .rows = kv_.staged(),
                    .max_context = kv_.context(),
                    .workspace = workspace_.get()},
                   stream);
  product(hidden, attended, o_, true);
  rms_norm(norm_args, stream);
  product(view_of(logits_, rows, s.experts), normed, router_, false);
}

double DenseChain::us(std::uint32_t rows) const {
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv_.layers(); ++i) layer(i, rows, stream);
  };
  return graph_microseconds(all, kReplays) / kv_.layers();
}

SmallOps small_ops_us(const DenseShape& s, const KvLayers& kv, std::uint32_t rows) {
  constexpr int kLaunches = 50;
  const auto hidden = upload_block<float>(ones(std::size_t{rows} * s.hidden));
  const auto normed = allocate_block<std::uint16_t>(std::size_t{rows} * s.hidden);
  const auto qkv = upload_block<float>(ones(std::size_t{rows} * s.qkv_size()));
  const auto norms = upload_block<float>(ones(s.hidden));
  const auto rope = upload_block<float>(ones(std::size_t{kv.context()} * s.head_dim));
  const auto table = random_bf16(std::size_t{1000} * s.hidden, 1);
  const auto tokens = upload_block<std::uint32_t>(std::vector<std::uint32_t>(rows, 7));
  const auto each = [&](const std::function<void(cudaStream_t)>& once) {
    const auto all = [&](cudaStream_t stream) {
      for (int i = 0; i < kLaunches; ++i) once(stream);
    };
    return graph_microseconds(all, kReplays) / kLaunches;
  };
  const TensorView all = view_of(qkv, rows, s.qkv_size());
  SmallOps out = {};
  out.rms_norm = each([&](cudaStream_t stream) {
    rms_norm({view_of(normed, rows, s.hidden), view_of(hidden, rows, s.hidden), view_of(norms, 1, s.hidden),
              1e-6F, nullptr},
             stream);
  });
  out.rope_store = each([&](cudaStream_t stream) {
    rope_store({.q = all.columns(0, s.q_size()),
                .k = all.columns(s.q_size(), s.kv_size()),
                .v = all.columns(s.q_size() + s.kv_size(), s.kv_size()),
                .q_weight = view_of(norms, 1, s.head_dim),
                .k_weight = view_of(norms, 1, s.head_dim),
                .eps = 1e-6F,
                .rope = view_of(rope, kv.context(), s.head_dim),
                .kv = kv.layer(0),
                .rows = kv.staged()},
               stream);
  });
  out.embed = each([&](cudaStream_t stream) {
    embed({view_of(hidden, rows, s.hidden), view_of(table, 1000, s.hidden), tokens.get(), nullptr}, stream);
  });
  return out;
}

double sample_us(std::uint32_t rows, std::uint32_t vocab, float temperature, float top_p,
                 std::uint32_t top_k) {
  // A long tail and a hundred likely tokens, as a language model's.
  std::mt19937 rng(9);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> values(std::size_t{rows} * vocab);
  for (float& value : values) value = normal(rng);
  for (std::uint32_t i = 0; i < 100 * rows; ++i)
    values[std::size_t{i / 100} * vocab + rng() % vocab] = 12 + normal(rng);
  const auto logits = upload_block<float>(values);
  const std::vector<SamplingRow> how(
      rows, {.uniform = 0.5, .temperature = temperature, .top_p = top_p, .min_p = 0, .top_k = top_k});
  const auto records = upload_block<SamplingRow>(how);
  const auto out = allocate_block<SampledRow>(rows);
  const auto workspace = allocate_block<std::byte>(sample_workspace(rows));
  constexpr int kLaunches = 10;
  const auto all = [&](cudaStream_t stream) {
    for (int i = 0; i < kLaunches; ++i)
      sample({view_of(logits, rows, vocab), records.get(), out.get(), nullptr, workspace.get()}, stream);
  };
  return graph_microseconds(all, kReplays) / kLaunches;
}

}  // namespace lynx::cuda
