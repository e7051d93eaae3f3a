#include "loadtest/bench/dense_chain.h"

#include "kernels/cuda/rope_store.h"
#include "kernels/cuda/rows.h"
#include "loadtest/bench/dense_operands.h"

namespace lynx::cuda {

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

}  // namespace lynx::cuda
