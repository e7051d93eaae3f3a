#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/cpu/micro_attention.h"

namespace lynx::testing {
namespace {

std::vector<double> expected_attention(const AttentionData& data, const float* q, std::uint32_t visible) {
  std::vector<double> weights(visible);
  double total = 0;
  for (std::uint32_t t = 0; t < visible; ++t) {
    double score = 0;
    for (std::uint32_t i = 0; i < data.head_dim; ++i)
      score += double{q[i]} * data.k[std::size_t{t} * data.head_dim + i];
    weights[t] = std::exp(score);
    total += weights[t];
  }
  std::vector<double> out(data.head_dim);
  for (std::uint32_t t = 0; t < visible; ++t) {
    for (std::uint32_t i = 0; i < data.head_dim; ++i) {
      out[i] += weights[t] / total * data.v[std::size_t{t} * data.head_dim + i];
    }
  }
  return out;
}

TEST(MicroAttention, EqualsDoublePrecision) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const AttentionCase& c : attention_cases()) {
      const auto& [visible, data, q] = AttentionRows(c);
      const std::vector<float> out = run_attention(*kernels, data, q, visible);
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        const auto want = expected_attention(data, &q[std::size_t{r} * c.head_dim], visible[r]);
        for (std::uint32_t i = 0; i < c.head_dim; ++i) {
          ASSERT_NEAR(out[std::size_t{r} * c.head_dim + i], want[i], 3e-6) << kernels->name << " row " << r;
        }
      }
    }
  }
}

TEST(MicroAttention, RowAloneHasTheSameBits) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const AttentionCase& c : attention_cases()) {
      const auto& [visible, data, q] = AttentionRows(c);
      const std::vector<float> together = run_attention(*kernels, data, q, visible);
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        const std::vector<float> one(q.begin() + r * c.head_dim, q.begin() + (r + 1) * c.head_dim);
        const std::vector<float> alone = run_attention(*kernels, data, one, {visible[r]});
        ASSERT_EQ(
            std::memcmp(alone.data(), &together[std::size_t{r} * c.head_dim], c.head_dim * sizeof(float)), 0)
            << kernels->name << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace lynx::testing
