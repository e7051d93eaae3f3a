#include "loadtest/bench/small_ops.h"

#include <functional>
#include <random>

#include "kernels/cuda/rope_store.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampling.h"
#include "loadtest/bench/dense_operands.h"

namespace lynx::cuda {

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
