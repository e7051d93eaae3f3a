#include "kernels/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/lynx/reference.h"

namespace lynx {
namespace {

constexpr std::uint32_t kExperts = 6;
constexpr std::uint32_t kHidden = 48;
constexpr std::uint32_t kIntermediate = 32;

// Random bf16 values that own themselves.
HostTensor random_tensor(std::vector<std::uint64_t> shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto values = std::make_shared<std::vector<std::uint16_t>>(shape[0] * shape[1]);
  for (std::uint16_t& value : *values) value = f32_to_bf16(uniform(random));
  return {.name = "random",
          .dtype = Dtype::kBf16,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(*values)),
          .owner = values};
}

float at(const HostTensor& t, std::size_t row, std::size_t col) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, t.bytes.data() + (row * t.shape[1] + col) * 2, 2);
  return bf16_to_f32(bits);
}

std::vector<ExpertTensors> random_experts() {
  std::vector<ExpertTensors> out;
  for (std::uint64_t e = 0; e < kExperts; ++e) {
    out.push_back({random_tensor({kIntermediate, kHidden}, 3 * e),
                   random_tensor({kIntermediate, kHidden}, 3 * e + 1),
                   random_tensor({kHidden, kIntermediate}, 3 * e + 2)});
  }
  return out;
}

void fill(TensorView view, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (std::uint32_t r = 0; r < view.rows; ++r) {
    for (std::uint32_t c = 0; c < view.cols; ++c) view.f32_row(r)[c] = uniform(random);
  }
}

CpuPlans plans_for(std::uint32_t rows, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> logits(std::size_t{rows} * kExperts);
  for (float& value : logits) value = normal(random);
  const std::vector<std::uint8_t> live(rows, 1);
  CpuPlans plans;
  plans.shape = {kExperts, 2, true, RouterKind::kSoftmax};
  plans.layers.resize(1);
  route_reference(plans.layers[0], logits, plans.shape, {}, {live, {}});
  return plans;
}

double expert_output(const ExpertTensors& e, const float* x, std::uint32_t column) {
  double out = 0;
  for (std::uint32_t i = 0; i < kIntermediate; ++i) {
    double gate = 0;
    double up = 0;
    for (std::uint32_t h = 0; h < kHidden; ++h) {
      gate += double{x[h]} * at(e.gate, i, h);
      up += double{x[h]} * at(e.up, i, h);
    }
    out += gate / (1 + std::exp(-gate)) * up * at(e.down, column, i);
  }
  return out;
}

TEST(CpuBackend, ExpertsAddTheWeightedSumOfThePlan) {
  const std::vector<ExpertTensors> tensors = random_experts();
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    CpuBackend backend(threads, best_micro_kernels());
    const auto weights = backend.load_experts(tensors);
    for (const std::uint32_t rows : {1U, 2U, 13U}) {
      const Tensor x = backend.allocate(Dtype::kF32, rows, kHidden);
      const Tensor out = backend.allocate(Dtype::kF32, rows, kHidden);
      fill(x.view, rows);
      fill(out.view, rows + 100);
      const std::vector<float> before(out.view.f32_row(0), out.view.f32_row(rows));
      const CpuPlans plans = plans_for(rows, rows);
      backend.experts_add(out.view, x.view, *weights, plans, 0);
      const ExpertPlan& plan = plans.layers[0];
      for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t c = 0; c < kHidden; ++c) {
          double want = before[r * kHidden + c];
          for (std::uint32_t s = 0; s < plan.top_k; ++s) {
            const std::size_t slot = std::size_t{r} * plan.top_k + s;
            want += plan.weights[slot] * expert_output(tensors[plan.experts[slot]], x.view.f32_row(r), c);
          }
          ASSERT_NEAR(out.view.f32_row(r)[c], want, 1e-4) << threads << " threads, row " << r;
        }
      }
    }
  }
}

TEST(CpuBackend, MatmulStacksPartsAndTakesAnyRowCount) {
  const HostTensor parts[] = {random_tensor({40, kHidden}, 1), random_tensor({8, kHidden}, 2),
                              random_tensor({70, kHidden}, 3)};
  for (const unsigned threads : {1U, 4U}) {
    CpuBackend backend(threads, best_micro_kernels());
    const auto w = backend.load_matrix(parts);
    ASSERT_EQ(w->n, 118U);
    for (const std::uint32_t rows : {1U, 65U, 200U}) {
      const Tensor x = backend.allocate(Dtype::kF32, rows, kHidden);
      const Tensor out = backend.allocate(Dtype::kF32, rows, w->n);
      fill(x.view, 5);
      backend.matmul(out.view, x.view, *w);
      backend.matmul_add(out.view, x.view, *w);
      for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t n = 0; n < w->n; ++n) {
          const HostTensor& part = n < 40 ? parts[0] : n < 48 ? parts[1] : parts[2];
          const std::uint32_t row = n < 40 ? n : n < 48 ? n - 40 : n - 48;
          double want = 0;
          for (std::uint32_t i = 0; i < kHidden; ++i) want += 2.0 * x.view.f32_row(r)[i] * at(part, row, i);
          ASSERT_NEAR(out.view.f32_row(r)[n], want, 1e-4);
        }
      }
    }
  }
}

TEST(CpuBackend, F32WeightsAreRoundedToBf16AndKeptInNorms) {
  CpuBackend backend(1, best_micro_kernels());
  const std::vector<float> values = {1.0F + 0x1p-12F, -3.14159265F};
  const HostTensor tensor{.name = "t",
                          .dtype = Dtype::kF32,
                          .shape = {2},
                          .bytes = std::as_bytes(std::span(values)),
                          .owner = nullptr};
  const Tensor kept = backend.upload(tensor, Dtype::kF32);
  EXPECT_EQ(kept.view.f32_row(0)[0], values[0]);
  const Tensor rounded = backend.upload(tensor, Dtype::kBf16);
  EXPECT_EQ(bf16_to_f32(rounded.view.bf16_row(0)[0]), 1.0F);
  EXPECT_EQ(rounded.view.bf16_row(0)[1], f32_to_bf16(values[1]));
}

TEST(Dtype, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F)), 1.0F);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F + 0x1p-8F)), 1.0F);                      // a tie: to even
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F + 0x1p-7F + 0x1p-8F)), 1.0F + 0x1p-6F);  // a tie: to even, upwards
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(1.0F + 0x1.8p-8F)), 1.0F + 0x1p-7F);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(bf16_to_f32(f32_to_bf16(3.4e38F))));
}

}  // namespace
}  // namespace lynx
