// The instruction sets against each other bit for bit, and the small kernels against a plain computation.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cpu/micro_attention.h"
#include "tests/kernels/cpu/micro_matmul.h"

namespace lynx::testing {
namespace {

// How two instruction sets must agree. A server with AVX2 and one with AVX-512 answer alike, bit for bit; the
// fallback has no FMA, so it rounds products, too.
void expect_alike(const MicroKernels& a, const MicroKernels& b, const std::vector<float>& from_a,
                  const std::vector<float>& from_b) {
  if (&a != micro_kernels(Isa::kGeneric) && &b != micro_kernels(Isa::kGeneric)) {
    ASSERT_EQ(from_a, from_b) << a.name << " " << b.name;
    return;
  }
  ASSERT_EQ(from_a.size(), from_b.size());
  for (std::size_t i = 0; i < from_a.size(); ++i)
    ASSERT_NEAR(from_a[i], from_b[i], 1e-4 * (1 + std::abs(from_a[i]))) << a.name << " " << b.name;
}

void expect_alike(const MicroKernels& a, const MicroKernels& b) {
  for (const MatmulCase& c : matmul_cases()) {
    const MatmulData data(c);
    expect_alike(a, b, run_matmul(a, c, data, 0, c.rows), run_matmul(b, c, data, 0, c.rows));
  }
  for (const AttentionCase& c : attention_cases()) {
    const AttentionRows rows(c);
    expect_alike(a, b, run_attention(a, rows.data, rows.q, rows.visible),
                 run_attention(b, rows.data, rows.q, rows.visible));
  }
}

TEST(MicroKernels, EveryInstructionSetOfThisMachineAgrees) {
  const std::vector<const MicroKernels*> all = all_kernels();
  for (const MicroKernels* a : all)
    for (const MicroKernels* b : all) expect_alike(*a, *b);
}

TEST(MicroKernels, NormRopeAndWiden) {
  for (const MicroKernels* kernels : all_kernels()) {
    const std::vector<float> x = random_values(64, 9);
    const std::vector<float> weight = random_values(64, 10);
    std::vector<float> out(64);
    kernels->rms_norm(out.data(), x.data(), weight.data(), 64, 1e-5F);
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    for (int i = 0; i < 64; ++i) ASSERT_NEAR(out[i], x[i] / std::sqrt(squares / 64 + 1e-5) * weight[i], 1e-6);

    std::vector<float> head = x;
    std::vector<float> angles(64);
    for (int i = 0; i < 32; ++i) {
      angles[i] = std::cos(0.1F * static_cast<float>(i));
      angles[32 + i] = std::sin(0.1F * static_cast<float>(i));
    }
    kernels->rope(head.data(), angles.data(), 64);
    for (int i = 0; i < 32; ++i) {
      ASSERT_NEAR(head[i], x[i] * angles[i] - x[32 + i] * angles[32 + i], 1e-6);
      ASSERT_NEAR(head[32 + i], x[32 + i] * angles[i] + x[i] * angles[32 + i], 1e-6);
    }

    std::vector<std::uint16_t> bits(37);
    std::vector<float> wide(37);
    for (int i = 0; i < 37; ++i) bits[i] = f32_to_bf16(x[i]);
    kernels->widen(wide.data(), bits.data(), 37);
    for (int i = 0; i < 37; ++i) ASSERT_EQ(wide[i], bf16_to_f32(bits[i]));
  }
}

}  // namespace
}  // namespace lynx::testing
