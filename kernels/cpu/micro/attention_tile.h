// Causal attention over a paged cache. Two passes: all scores, then softmax and the sum of values. Included
// after lanes_*.h and lane_math.h.
//
// A row's arithmetic depends on its position alone: a score is one chain over d, the softmax adds in lanes by
// key position, the output is one chain over the keys it sees.
#pragma once

namespace lynx {
namespace {

inline Lanes load_kv(const std::byte* p, bool bf16, std::uint32_t d) {
  return bf16 ? load_bf16(reinterpret_cast<const std::uint16_t*>(p) + d)
              : load(reinterpret_cast<const float*>(p) + d);
}

// The pages, once for all that follows: a division per key and use would cost more than the key's products.
inline void find_tokens(const AttentionTask& task, std::uint32_t end) {
  std::uint32_t position = 0;
  for (std::uint32_t block = 0; position < end; ++block) {
    const std::byte* key = task.kv.layer + task.kv.blocks[block] * task.kv.block_bytes;
    for (std::uint32_t slot = 0; slot < task.kv.block_tokens && position < end; ++slot, ++position) {
      task.tokens[position] = key + slot * task.kv.token_bytes;
    }
  }
}

// keys[d][i] = K of position first + i, for 32 positions; zero past the end.
inline void load_keys(const AttentionTask& task, std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t part = 0; part < kPanel; part += kLanes) {
    const std::byte* key[kLanes];
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      key[i] = first + part + i < end ? task.tokens[first + part + i] : nullptr;
    }
    for (std::uint32_t d = 0; d < task.head_dim; d += kLanes) {
      Lanes rows[kLanes];
      for (std::uint32_t i = 0; i < kLanes; ++i) {
        rows[i] = key[i] == nullptr ? zero() : load_kv(key[i], task.kv.bf16, d);
      }
      transpose(rows, task.keys + d * kPanel + part, kPanel);
    }
  }
}

template <int kRows>
inline void score_tile(const AttentionTask& task, std::uint32_t row, std::uint32_t first) {
  Lanes acc[kRows][2];
  for (auto& a : acc) a[0] = a[1] = zero();
  const float* q = task.q + static_cast<std::size_t>(row) * task.head_dim;
  const float* keys = task.keys;
  for (std::uint32_t d = 0; d < task.head_dim; ++d, keys += kPanel) {
    const Lanes low = load(keys);
    const Lanes high = load(keys + kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = splat(q[static_cast<std::size_t>(r) * task.head_dim + d]);
      acc[r][0] = fma(value, low, acc[r][0]);
      acc[r][1] = fma(value, high, acc[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = task.scores + (row + r) * task.score_stride + first;
    store(out, acc[r][0]);
    store(out + kLanes, acc[r][1]);
  }
}

// Scores become weights, not yet divided by their sum, which is returned.
inline float softmax_row(float* scores, std::uint32_t visible) {
  const std::uint32_t padded = (visible + kLanes - 1) / kLanes * kLanes;
  for (std::uint32_t i = visible; i < padded; ++i) scores[i] = -__builtin_inff();
  Lanes top = load(scores);
  for (std::uint32_t i = kLanes; i < padded; i += kLanes) top = max(top, load(scores + i));
  const Lanes highest = splat(largest(top));
  Lanes total = zero();
  for (std::uint32_t i = 0; i < padded; i += kLanes) {
    const Lanes shifted = sub(load(scores + i), highest);
    const Lanes weight = keep_from(shifted, splat(-87.0F), exp_lanes(shifted));
    store(scores + i, weight);
    total = add(total, weight);
  }
  return sum(total);
}

// out[d .. d + 16 * kWide) of kRows rows += weight * V over keys [begin, end).
template <int kRows, int kWide>
inline void value_tile(const AttentionTask& task, std::uint32_t row, std::uint32_t d, std::uint32_t begin,
                       std::uint32_t end) {
  Lanes acc[kRows][kWide];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kWide; ++c) acc[r][c] = load(task.out[row + r] + d + c * kLanes);
  }
  const float* weights = task.scores + row * task.score_stride;
  for (std::uint32_t j = begin; j < end; ++j) {
    const std::byte* v = task.tokens[j] + task.kv.v_offset;
    Lanes value[kWide];
    for (int c = 0; c < kWide; ++c) value[c] = load_kv(v, task.kv.bf16, d + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Lanes weight = splat(weights[r * task.score_stride + j]);
      for (int c = 0; c < kWide; ++c) acc[r][c] = fma(weight, value[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kWide; ++c) store(task.out[row + r] + d + c * kLanes, acc[r][c]);
  }
}

template <int kRows>
inline void sum_values(const AttentionTask& task, std::uint32_t row, std::uint32_t begin, std::uint32_t end) {
  std::uint32_t d = 0;
  if constexpr (kRows <= 4) {
    for (; d + 4 * kLanes <= task.head_dim; d += 4 * kLanes) value_tile<kRows, 4>(task, row, d, begin, end);
  }
  for (; d + 2 * kLanes <= task.head_dim; d += 2 * kLanes) value_tile<kRows, 2>(task, row, d, begin, end);
  for (; d < task.head_dim; d += kLanes) value_tile<kRows, 1>(task, row, d, begin, end);
}

// Rows are grouped while they last: 8, then 4, 2, 1. What they have in common goes first, then each row's own
// keys.
template <int kRows>
inline void values_of_group(const AttentionTask& task, std::uint32_t row) {
  const std::uint32_t common = task.visible[row];
  sum_values<kRows>(task, row, 0, common);
  for (std::uint32_t r = row; r < row + kRows; ++r) {
    if (task.visible[r] > common) sum_values<1>(task, r, common, task.visible[r]);
  }
}

template <typename Call8, typename Call4, typename Call2, typename Call1>
inline void in_groups(std::uint32_t rows, Call8 call8, Call4 call4, Call2 call2, Call1 call1) {
  std::uint32_t row = 0;
  for (; row + 8 <= rows; row += 8) call8(row);
  for (; row + 4 <= rows; row += 4) call4(row);
  for (; row + 2 <= rows; row += 2) call2(row);
  for (; row < rows; ++row) call1(row);
}

inline void attention(const AttentionTask& task) {
  const std::uint32_t end = task.visible[task.rows - 1];
  find_tokens(task, end);
  for (std::uint32_t first = 0; first < end; first += kPanel) {
    load_keys(task, first, end);
    in_groups(
        task.rows, [&](std::uint32_t r) { score_tile<8>(task, r, first); },
        [&](std::uint32_t r) { score_tile<4>(task, r, first); },
        [&](std::uint32_t r) { score_tile<2>(task, r, first); },
        [&](std::uint32_t r) { score_tile<1>(task, r, first); });
  }
  float inverse[kAttentionRows];
  for (std::uint32_t r = 0; r < task.rows; ++r) {
    inverse[r] = 1.0F / softmax_row(task.scores + r * task.score_stride, task.visible[r]);
    for (std::uint32_t d = 0; d < task.head_dim; d += kLanes) store(task.out[r] + d, zero());
  }
  in_groups(
      task.rows, [&](std::uint32_t r) { values_of_group<8>(task, r); },
      [&](std::uint32_t r) { values_of_group<4>(task, r); },
      [&](std::uint32_t r) { values_of_group<2>(task, r); },
      [&](std::uint32_t r) { values_of_group<1>(task, r); });
  for (std::uint32_t r = 0; r < task.rows; ++r) {
    for (std::uint32_t d = 0; d < task.head_dim; d += kLanes) {
      store(task.out[r] + d, mul(load(task.out[r] + d), splat(inverse[r])));
    }
  }
}

}  // namespace
}  // namespace lynx
