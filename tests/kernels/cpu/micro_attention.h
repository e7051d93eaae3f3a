// Attention of the micro kernels, on paged KV with a plain copy for a reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/cpu/micro_data.h"

namespace lynx::testing {

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

inline std::vector<float> run_attention(const MicroKernels& kernels, const AttentionData& data,
                                        const std::vector<float>& q,
                                        const std::vector<std::uint32_t>& visible) {
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

struct AttentionCase {
  std::uint32_t head_dim, block_tokens, first_visible, rows, per_position;
  bool bf16;
};

// The rows of a case, and the sequence that they look at.
struct AttentionRows {
  explicit AttentionRows(const AttentionCase& c)
      : visible(visible_of(c)),
        data(c.head_dim, visible.back(), c.block_tokens, c.bf16),
        q(random_values(std::size_t{c.rows} * c.head_dim, 7)) {}
  static std::vector<std::uint32_t> visible_of(const AttentionCase& c) {
    std::vector<std::uint32_t> out;
    for (std::uint32_t r = 0; r < c.rows; ++r) out.push_back(c.first_visible + r / c.per_position);
    return out;
  }

  std::vector<std::uint32_t> visible;
  AttentionData data;
  std::vector<float> q;
};

inline std::vector<AttentionCase> attention_cases() {
  return {{16, 16, 1, 1, 1, false},   {64, 16, 1, 40, 2, false}, {64, 16, 100, 1, 1, false},
          {80, 5, 31, 9, 3, false},   {32, 16, 32, 13, 1, true}, {128, 64, 70, 8, 4, true},
          {48, 16, 257, 15, 5, false}};
}

}  // namespace lynx::testing
