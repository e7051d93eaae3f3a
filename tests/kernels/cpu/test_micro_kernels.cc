// Every instruction set against a plain double-precision computation, and against each other bit for bit.
#include "kernels/cpu/micro/micro_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/dtype.h"

namespace lynx {
namespace {

std::vector<const MicroKernels*> all_kernels() {
  std::vector<const MicroKernels*> out;
  for (const Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (const MicroKernels* kernels = micro_kernels(isa)) out.push_back(kernels);
  }
  return out;
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& value : out) value = uniform(random);
  return out;
}

struct MatmulCase {
  std::uint32_t rows, k, columns;
  Epilogue epilogue;
};

// Weights by output for the reference, and packed for the kernels. SiluMul has a gate and an up per column.
struct MatmulData {
  explicit MatmulData(const MatmulCase& c)
      : x(random_values(std::size_t{c.rows} * c.k, 1)),
        w(random_values(std::size_t{c.columns} * outputs_per_column(c) * c.k, 2)),
        before(random_values(std::size_t{c.rows} * c.columns, 3)),
        scale(random_values(c.rows, 4)) {
    for (float& value : w) value = bf16_to_f32(f32_to_bf16(value));
    const std::uint32_t per_panel = c.epilogue == Epilogue::kSiluMul ? kLanes : kPanel;
    panels = (c.columns + per_panel - 1) / per_panel;
    packed.resize(std::size_t{panels} * c.k * kPanel);
    for (std::uint32_t n = 0; n < c.columns * outputs_per_column(c); ++n) {
      const std::uint32_t column = n % c.columns;
      const std::uint32_t output = column % per_panel + n / c.columns * kLanes;
      for (std::uint32_t i = 0; i < c.k; ++i) {
        packed[(std::size_t{column / per_panel} * c.k + i) * kPanel + 2 * (output % kLanes) +
               output / kLanes] = f32_to_bf16(w[std::size_t{n} * c.k + i]);
      }
    }
  }
  static std::uint32_t outputs_per_column(const MatmulCase& c) {
    return c.epilogue == Epilogue::kSiluMul ? 2 : 1;
  }

  std::vector<float> x, w, before, scale;
  std::vector<std::uint16_t> packed;
  std::uint32_t panels = 0;
};

std::vector<float> run_matmul(const MicroKernels& kernels, const MatmulCase& c, const MatmulData& data,
                              std::uint32_t first_row, std::uint32_t rows) {
  std::vector<float> out = data.before;
  std::vector<const float*> in_rows;
  std::vector<float*> out_rows;
  for (std::uint32_t r = first_row; r < first_row + rows; ++r) {
    in_rows.push_back(data.x.data() + std::size_t{r} * c.k);
    out_rows.push_back(out.data() + std::size_t{r} * c.columns);
  }
  kernels.matmul({.x = in_rows.data(),
                  .out = out_rows.data(),
                  .scale = data.scale.data() + first_row,
                  .panels = data.packed.data(),
                  .rows = rows,
                  .panel_count = data.panels,
                  .k = c.k,
                  .columns = c.columns,
                  .epilogue = c.epilogue});
  return out;
}

double dot(const MatmulCase& c, const MatmulData& data, std::uint32_t row, std::uint32_t output) {
  double sum = 0;
  for (std::uint32_t i = 0; i < c.k; ++i) {
    sum += double{data.x[std::size_t{row} * c.k + i]} * data.w[std::size_t{output} * c.k + i];
  }
  return sum;
}

double expected(const MatmulCase& c, const MatmulData& data, std::uint32_t row, std::uint32_t column) {
  const double product = dot(c, data, row, column);
  const double before = data.before[std::size_t{row} * c.columns + column];
  switch (c.epilogue) {
    case Epilogue::kStore:
      return product;
    case Epilogue::kAdd:
      return before + product;
    case Epilogue::kAddScaled:
      return before + data.scale[row] * product;
    case Epilogue::kSiluMul:
      return product / (1 + std::exp(-product)) * dot(c, data, row, c.columns + column);
  }
  return 0;
}

std::vector<MatmulCase> matmul_cases() {
  std::vector<MatmulCase> out;
  for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 17U}) {
    for (const std::uint32_t k : {1U, 48U, 129U}) {
      for (const std::uint32_t columns : {8U, 32U, 56U, 96U}) {
        for (const Epilogue e : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kAddScaled}) {
          out.push_back({rows, k, columns, e});
        }
      }
      out.push_back({rows, k, 48, Epilogue::kSiluMul});
    }
  }
  return out;
}

TEST(MicroKernels, MatmulEqualsDoublePrecision) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const MatmulCase& c : matmul_cases()) {
      const MatmulData data(c);
      const std::vector<float> out = run_matmul(*kernels, c, data, 0, c.rows);
      for (std::uint32_t row = 0; row < c.rows; ++row) {
        for (std::uint32_t column = 0; column < c.columns; ++column) {
          ASSERT_NEAR(out[std::size_t{row} * c.columns + column], expected(c, data, row, column),
                      2e-5 * c.k + 1e-6)
              << kernels->name << " rows " << c.rows << " k " << c.k << " columns " << c.columns;
        }
      }
    }
  }
}

TEST(MicroKernels, MatmulRowAloneHasTheSameBits) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const MatmulCase& c : matmul_cases()) {
      const MatmulData data(c);
      const std::vector<float> together = run_matmul(*kernels, c, data, 0, c.rows);
      for (std::uint32_t row = 0; row < c.rows; ++row) {
        const std::vector<float> alone = run_matmul(*kernels, c, data, row, 1);
        ASSERT_EQ(std::memcmp(&alone[std::size_t{row} * c.columns], &together[std::size_t{row} * c.columns],
                              c.columns * sizeof(float)),
                  0)
            << kernels->name;
      }
    }
  }
}

// One sequence with its pages in a scrambled pool.
struct AttentionData {
  AttentionData(std::uint32_t d, std::uint32_t key_count, std::uint32_t block_tokens, bool as_bf16)
      : head_dim(d), keys(key_count), bf16(as_bf16), block(block_tokens) {
    const std::size_t element = bf16 ? 2 : 4;
    const std::uint32_t block_count = (keys + block - 1) / block;
    token_bytes = head_dim * element;
    block_bytes = 2 * block * token_bytes;
    k = random_values(std::size_t{keys} * d, 5);
    v = random_values(std::size_t{keys} * d, 6);
    pool.resize(block_count * block_bytes);
    for (std::uint32_t b = 0; b < block_count; ++b) blocks.push_back((b * 7 + 3) % block_count);
    if (block_count % 7 == 0) {
      for (std::uint32_t b = 0; b < block_count; ++b) blocks[b] = block_count - 1 - b;
    }
    for (std::uint32_t t = 0; t < keys; ++t) {
      std::byte* at = pool.data() + blocks[t / block] * block_bytes + (t % block) * token_bytes;
      for (std::uint32_t i = 0; i < d; ++i) {
        write(at + i * element, k[std::size_t{t} * d + i]);
        write(at + block * token_bytes + i * element, v[std::size_t{t} * d + i]);
      }
    }
  }
  void write(std::byte* to, float& value) const {
    if (!bf16) {
      std::memcpy(to, &value, sizeof(value));
      return;
    }
    const std::uint16_t bits = f32_to_bf16(value);
    value = bf16_to_f32(bits);
    std::memcpy(to, &bits, sizeof(bits));
  }

  std::uint32_t head_dim, keys;
  bool bf16;
  std::uint32_t block;
  std::size_t token_bytes = 0, block_bytes = 0;
  std::vector<float> k, v;
  std::vector<std::byte> pool;
  std::vector<std::uint32_t> blocks;
};

std::vector<float> run_attention(const MicroKernels& kernels, const AttentionData& data,
                                 const std::vector<float>& q, const std::vector<std::uint32_t>& visible) {
  const auto rows = static_cast<std::uint32_t>(visible.size());
  const std::size_t stride = (data.keys + kPanel - 1) / kPanel * kPanel;
  std::vector<float> scores(rows * stride, std::nanf(""));
  std::vector<float> keys(std::size_t{data.head_dim} * kPanel, std::nanf(""));
  std::vector<const std::byte*> tokens(stride);
  std::vector<float> out(std::size_t{rows} * data.head_dim);
  std::vector<float*> out_rows;
  for (std::uint32_t r = 0; r < rows; ++r) out_rows.push_back(out.data() + std::size_t{r} * data.head_dim);
  kernels.attention({.kv = {.layer = data.pool.data(),
                            .blocks = data.blocks.data(),
                            .block_bytes = data.block_bytes,
                            .token_bytes = data.token_bytes,
                            .v_offset = data.block * data.token_bytes,
                            .block_tokens = data.block,
                            .bf16 = data.bf16},
                     .q = q.data(),
                     .out = out_rows.data(),
                     .visible = visible.data(),
                     .scores = scores.data(),
                     .keys = keys.data(),
                     .tokens = tokens.data(),
                     .score_stride = stride,
                     .rows = rows,
                     .head_dim = data.head_dim});
  return out;
}

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

struct AttentionCase {
  std::uint32_t head_dim, block_tokens, first_visible, rows, per_position;
  bool bf16;
};

std::vector<AttentionCase> attention_cases() {
  return {{16, 16, 1, 1, 1, false},   {64, 16, 1, 40, 2, false}, {64, 16, 100, 1, 1, false},
          {80, 5, 31, 9, 3, false},   {32, 16, 32, 13, 1, true}, {128, 64, 70, 8, 4, true},
          {48, 16, 257, 15, 5, false}};
}

TEST(MicroKernels, AttentionEqualsDoublePrecision) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const AttentionCase& c : attention_cases()) {
      std::vector<std::uint32_t> visible;
      for (std::uint32_t r = 0; r < c.rows; ++r) visible.push_back(c.first_visible + r / c.per_position);
      const AttentionData data(c.head_dim, visible.back(), c.block_tokens, c.bf16);
      const std::vector<float> q = random_values(std::size_t{c.rows} * c.head_dim, 7);
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

TEST(MicroKernels, AttentionRowAloneHasTheSameBits) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const AttentionCase& c : attention_cases()) {
      std::vector<std::uint32_t> visible;
      for (std::uint32_t r = 0; r < c.rows; ++r) visible.push_back(c.first_visible + r / c.per_position);
      const AttentionData data(c.head_dim, visible.back(), c.block_tokens, c.bf16);
      const std::vector<float> q = random_values(std::size_t{c.rows} * c.head_dim, 7);
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
    std::vector<std::uint32_t> visible(c.rows, c.first_visible);
    const AttentionData data(c.head_dim, c.first_visible, c.block_tokens, c.bf16);
    const std::vector<float> q = random_values(std::size_t{c.rows} * c.head_dim, 8);
    expect_alike(a, b, run_attention(a, data, q, visible), run_attention(b, data, q, visible));
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

// A diverged row must give NaN or a finite number, never hang or trap; huge gates must not overflow to NaN.
TEST(MicroKernels, SiluOfLargeGates) {
  for (const MicroKernels* kernels : all_kernels()) {
    for (const float gate : {-200.0F, -88.0F, 88.0F, 200.0F}) {
      std::vector<std::uint16_t> panel(kPanel);
      for (std::uint32_t i = 0; i < kLanes; ++i) {
        panel[2 * i] = f32_to_bf16(gate);
        panel[2 * i + 1] = f32_to_bf16(1);
      }
      const float one = 1;
      const float* x = &one;
      std::vector<float> out(kLanes);
      float* row = out.data();
      kernels->matmul({.x = &x,
                       .out = &row,
                       .panels = panel.data(),
                       .rows = 1,
                       .panel_count = 1,
                       .k = 1,
                       .columns = kLanes,
                       .epilogue = Epilogue::kSiluMul});
      for (const float value : out)
        EXPECT_NEAR(value, gate > 0 ? gate : 0, 1e-30) << kernels->name << " " << gate;
    }
  }
}

}  // namespace
}  // namespace lynx
