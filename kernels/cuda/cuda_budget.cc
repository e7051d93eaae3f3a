#include <algorithm>

#include "kernels/cuda/attention_block.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/route.h"
#include "kernels/cuda/sampling.h"
#include "kernels/device_budget.h"

namespace lynx {
namespace {

constexpr std::uint64_t kBf16 = 2;
constexpr std::uint64_t kF32 = 4;

std::uint64_t weights(const DeviceNeeds& n, const cuda::ExpertShape& experts) {
  const std::uint64_t hidden = n.hidden;
  const std::uint64_t head_dim = n.limits.head_dim;
  const std::uint64_t q = n.limits.q_heads * head_dim;
  const std::uint64_t kv = n.limits.kv_heads * head_dim;
  const std::uint64_t matrices = hidden * (q + 2 * kv) + q * hidden + hidden * n.router.experts;
  const std::uint64_t norms = 2 * hidden + 2 * head_dim;
  const std::uint64_t layer =
      matrices * kBf16 + norms * kF32 + n.router.experts * cuda::packed_expert_bytes(experts);
  // The head is there beside the embedding even when the two are tied.
  return layer * n.layers + 2 * n.limits.vocab * hidden * kBf16 + hidden * kF32 + n.context * head_dim * kF32;
}

std::uint64_t activations(const DeviceNeeds& n, std::uint64_t rows, std::uint64_t logit_rows) {
  const std::uint64_t q = std::uint64_t{n.limits.q_heads} * n.limits.head_dim;
  const std::uint64_t kv = std::uint64_t{n.limits.kv_heads} * n.limits.head_dim;
  const std::uint64_t row = (n.hidden + q + 2 * kv + n.router.experts) * kF32 + (n.hidden + q) * kBf16;
  return rows * row + logit_rows * (n.hidden * (kF32 + kBf16) + std::uint64_t{n.limits.vocab} * kF32);
}

std::uint64_t workspace(const DeviceNeeds& n, const cuda::ExpertShape& experts, std::uint32_t rows,
                        std::uint32_t logit_rows) {
  const StepLimits& limits = n.limits;
  const std::uint64_t plans =
      n.layers * (cuda::device_plan_bytes(n.router, rows) + sizeof(cuda::DevicePlanStats) +
                  kDecodeRows * sizeof(cuda::DevicePlanRow));
  const std::uint64_t tables =
      std::uint64_t{logit_rows} * ((limits.context + n.block_tokens - 1) / n.block_tokens) * sizeof(BlockId);
  return plans + tables + cuda::StepStage::device_bytes(rows, logit_rows) +
         cuda::decode_attention_workspace(std::min(rows, kDecodeRows), limits.q_heads, limits.kv_heads,
                                          limits.head_dim, limits.context) +
         cuda::kAttentionBlockMeetings * sizeof(std::uint32_t) + cuda::sample_workspace(logit_rows) +
         logit_rows * sizeof(cuda::SampledRow) +
         cuda::experts_workspace_bytes(experts, n.router.top_k, rows) + cuda::WideGemm::workspace_bytes();
}

}  // namespace

DeviceBudget device_budget(const DeviceNeeds& needs) {
  const cuda::ExpertShape experts{needs.router.experts, needs.hidden, needs.intermediate};
  const std::uint32_t rows = cuda::decode_bucket(needs.limits.rows);
  const std::uint32_t logit_rows = cuda::decode_bucket(needs.limits.logit_rows);
  return {.weights = weights(needs, experts),
          .activations = activations(needs, rows, logit_rows),
          .workspace = workspace(needs, experts, rows, logit_rows),
          .loading = 3 * std::uint64_t{needs.hidden} * needs.intermediate * kBf16};
}

}  // namespace lynx
