#include "loadtest/bench/dense_chain.h"

#include <algorithm>

#include "kernels/cuda/attention_block.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_gemm.h"
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
          decode_attention_workspace(kSkinnyRows, s.q_heads, s.kv_heads, s.head_dim, kv.context()))),
      meetings_(upload_block<std::uint32_t>(std::vector<std::uint32_t>(kAttentionBlockMeetings, 0))) {}

double DenseChain::bytes(std::uint32_t rows, LayerPart part) const {
  const double router = part == LayerPart::kAll ? shape_.experts : 0;
  const double weights = 2.0 * shape_.hidden * (shape_.qkv_size() + shape_.q_size() + router);
  return weights + 4.0 * rows * kv_.context() * shape_.kv_size();
}

void DenseChain::layer(std::uint32_t i, std::uint32_t rows, LayerPart part, cudaStream_t stream,
                       std::uint64_t* timeline) const {
  const DenseShape& s = shape_;
  const TensorView hidden = view_of(hidden_, rows, s.hidden);
  const TensorView normed = view_of(normed_, rows, s.hidden);
  const TensorView qkv = view_of(qkv_out_, rows, s.qkv_size());
  const TensorView attended = view_of(attended_, rows, s.q_size());
  const TensorView norm = view_of(norms_, 1, s.hidden);
  const auto matrix = [i](const DeviceBlock<std::uint16_t>& weights, std::uint32_t n, std::uint32_t k) {
    return weights.get() + std::size_t{i} * n * k;
  };
  const AttentionBlockArgs block = {
      .x = hidden,
      .norm_weight = norm,
      .eps = 1e-6F,
      .qkv = matrix(qkv_, s.qkv_size(), s.hidden),
      .o = matrix(o_, s.hidden, s.q_size()),
      .normed = normed,
      .qkv_rows = qkv,
      .attention = {.out = attended,
                    .in = {.q = qkv.columns(0, s.q_size()),
                           .k = qkv.columns(s.q_size(), s.kv_size()),
                           .v = qkv.columns(s.q_size() + s.kv_size(), s.kv_size()),
                           .q_weight = view_of(norms_, 1, s.head_dim),
                           .k_weight = view_of(norms_, 1, s.head_dim),
                           .eps = 1e-6F,
                           .rope = view_of(rope_, kv_.context(), s.head_dim),
                           .kv = kv_.layer(i),
                           .rows = kv_.staged()},
                    .max_context = kv_.context(),
                    .workspace = workspace_.get(),
                    .kernels = kernels_of_device()},
      .meetings = meetings_.get(),
      .timeline = timeline};
  if (part == LayerPart::kBlockApart) return attention_block_apart(block, stream);
  attention_block(block, stream);
  if (part == LayerPart::kBlock) return;
  norm_gemm({.out = view_of(logits_, rows, s.experts),
             .normed = normed,
             .x = hidden,
             .norm_weight = norm,
             .eps = 1e-6F,
             .weights = matrix(router_, s.experts, s.hidden),
             .live_rows = nullptr,
             .kernels = kernels_of_device()},
            stream);
}

double DenseChain::us(std::uint32_t rows, LayerPart part) const {
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv_.layers(); ++i) layer(i, rows, part, stream);
  };
  return graph_microseconds(all, kReplays) / kv_.layers();
}

namespace {

double since(std::uint64_t before, std::uint64_t moment) {  // us
  return (static_cast<double>(moment) - static_cast<double>(before)) * 1e-3;
}

double median(std::vector<double>& of) {
  std::sort(of.begin(), of.end());
  return of.empty() ? 0 : of[of.size() / 2];
}

}  // namespace

std::vector<double> DenseChain::timeline(std::uint32_t rows) const {
  const std::size_t record = multiprocessors() * kBlockMarks;
  const auto marks = allocate_block<std::uint64_t>(record * kv_.layers());
  const auto all = [&](cudaStream_t stream) {
    for (std::uint32_t i = 0; i < kv_.layers(); ++i)
      layer(i, rows, LayerPart::kBlock, stream, marks.get() + i * record);
  };
  static_cast<void>(graph_microseconds(all, 1));
  std::vector<std::uint64_t> host(record * kv_.layers());
  require(cudaMemcpy(host.data(), marks.get(), host.size() * sizeof(host[0]), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
  std::vector<std::vector<double>> of_mark(kBlockMarks);
  std::vector<std::vector<double>> last_of_mark(kBlockMarks);  // of a layer's blocks
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < kv_.layers(); ++i) {
    std::vector<std::uint64_t> last(kBlockMarks);
    for (std::size_t at = i * record; at < (i + 1) * record; ++at) {
      last[at % kBlockMarks] = std::max(last[at % kBlockMarks], host[at]);
      if (host[at] != 0 && before != 0) of_mark[at % kBlockMarks].push_back(since(before, host[at]));
    }
    for (std::size_t mark = 0; mark < kBlockMarks; ++mark)
      if (last[mark] != 0 && before != 0) last_of_mark[mark].push_back(since(before, last[mark]));
    before = last.back();
  }
  std::vector<double> medians;
  for (std::size_t mark = 0; mark < kBlockMarks; ++mark) {
    medians.push_back(median(of_mark[mark]));
    medians.push_back(median(last_of_mark[mark]));
  }
  return medians;
}

}  // namespace lynx::cuda
