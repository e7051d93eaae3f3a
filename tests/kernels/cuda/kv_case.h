// Sequences in a paged pool with shuffled blocks, on both sides: what the tests of the KV write and of
// attention start from.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cuda/paged_kv.h"
#include "tests/kernels/cuda/parity.h"

namespace lynx::cuda {

struct Heads {
  std::uint32_t q, kv, size;
};

class KvCase {
 public:
  static constexpr std::uint32_t kLayer = 1;  // of 2: the other must stay as it is

  // Room for tokens[s] tokens of each sequence s.
  KvCase(Heads heads, KvDtype dtype, std::uint32_t block_tokens, const std::vector<std::uint32_t>& tokens)
      : layout_{.layers = 2,
                .blocks = 3,
                .block_tokens = block_tokens,
                .kv_heads = heads.kv,
                .head_dim = heads.size,
                .dtype = dtype} {
    for (const std::uint32_t count : tokens) {
      layout_.blocks += layout_.blocks_for(count);
      stride_ = std::max(stride_, layout_.blocks_for(count) + 1);
    }
    std::vector<BlockId> order(layout_.blocks);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<std::uint32_t>(fresh_seed())));
    std::size_t next = 0;
    for (const std::uint32_t count : tokens) {
      for (std::uint32_t b = 0; b < stride_; ++b)
        tables_.push_back(b < layout_.blocks_for(count) ? order[next++] : 0xFFFFFFFFU);
    }
    device_tables_ = std::make_unique<DeviceArray<BlockId>>(tables_);
    pool_ = std::make_unique<DeviceArray<std::byte>>(layout_.pool_bytes());
  }

  const PageLayout& layout() const { return layout_; }
  KvLayer layer() const { return kv_layer(pool_->get(), layout_, kLayer); }
  std::vector<std::byte> download() const { return pool_->download(); }
  StagedRows staged() const { return {.tables = device_tables_->get(), .table_stride = stride_}; }

  std::size_t k_offset(std::uint32_t sequence, std::uint32_t position) const {
    const BlockId block = tables_[sequence * stride_ + position / layout_.block_tokens];
    return layout_.k_offset(kLayer, block, position % layout_.block_tokens);
  }
  std::size_t v_offset(std::uint32_t sequence, std::uint32_t position) const {
    const BlockId block = tables_[sequence * stride_ + position / layout_.block_tokens];
    return layout_.v_offset(kLayer, block, position % layout_.block_tokens);
  }

  // Random keys and values everywhere in the layer; rounded to the pool's type.
  void fill() {
    std::vector<std::byte> bytes(layout_.pool_bytes(), std::byte{0xFF});
    const std::size_t begin = layout_.block_offset(kLayer, 0);
    const std::size_t size = bytes_of(layout_.dtype);
    values_ = random_floats((bytes.size() - begin) / size, fresh_seed());
    if (layout_.dtype == KvDtype::kBf16) values_ = rounded_to_bf16(values_);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::uint16_t half = f32_to_bf16(values_[i]);
      std::memcpy(bytes.data() + begin + i * size, size == 4 ? static_cast<const void*>(&values_[i]) : &half,
                  size);
    }
    pool_->upload(bytes);
  }
  // After fill(): a token that is not in the pool yet, but that the references know.
  void expect(std::uint32_t sequence, std::uint32_t position, const std::vector<float>& k,
              const std::vector<float>& v) {
    const std::size_t begin = layout_.block_offset(kLayer, 0);
    const auto place = [&](std::size_t offset, std::vector<float> values) {
      if (layout_.dtype == KvDtype::kBf16) values = rounded_to_bf16(values);
      std::copy(values.begin(), values.end(),
                values_.begin() + static_cast<std::ptrdiff_t>((offset - begin) / bytes_of(layout_.dtype)));
    };
    place(k_offset(sequence, position), k);
    place(v_offset(sequence, position), v);
    poison(sequence, position);
  }
  // The token's keys and values on the device become NaNs.
  void poison(std::uint32_t sequence, std::uint32_t position) const {
    for (const std::size_t offset : {k_offset(sequence, position), v_offset(sequence, position)})
      expect_ok(cudaMemset(pool_->get() + offset, 0xFF, layout_.token_bytes()));
  }
  // Nobody has written the token since.
  bool is_poisoned(std::uint32_t sequence, std::uint32_t position) const {
    for (const std::size_t offset : {k_offset(sequence, position), v_offset(sequence, position)})
      for (const std::byte byte :
           DeviceArray<std::byte>::download_from(pool_->get() + offset, layout_.token_bytes()))
        if (byte != std::byte{0xFF}) return false;
    return true;
  }
  // What the pool on the device holds at such an offset: a token's heads.
  std::vector<float> stored(std::size_t offset) const {
    const auto bytes = DeviceArray<std::byte>::download_from(pool_->get() + offset, layout_.token_bytes());
    const std::size_t size = bytes_of(layout_.dtype);
    std::vector<float> out;
    for (std::size_t i = 0; i < bytes.size(); i += size) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i, size);
      out.push_back(size == 4 ? std::bit_cast<float>(bits) : bf16_to_f32(static_cast<std::uint16_t>(bits)));
    }
    return out;
  }
  // After fill(): the token's heads, [kv_heads * head_dim].
  const float* k(std::uint32_t sequence, std::uint32_t position) const {
    return at(k_offset(sequence, position));
  }
  const float* v(std::uint32_t sequence, std::uint32_t position) const {
    return at(v_offset(sequence, position));
  }

 private:
  const float* at(std::size_t offset) const {
    return values_.data() + (offset - layout_.block_offset(kLayer, 0)) / bytes_of(layout_.dtype);
  }

  PageLayout layout_;
  std::uint32_t stride_ = 0;
  std::vector<BlockId> tables_;
  std::unique_ptr<DeviceArray<BlockId>> device_tables_;
  std::unique_ptr<DeviceArray<std::byte>> pool_;
  std::vector<float> values_;
};

inline constexpr float kHeadEps = 1e-6F;

// [context, size]: cosines, then sines.
inline std::vector<float> rope_table(std::uint32_t context, std::uint32_t size) {
  std::vector<float> out(std::size_t{context} * size);
  for (std::uint32_t p = 0; p < context; ++p) {
    for (std::uint32_t i = 0; i < size / 2; ++i) {
      const double angle = p / std::pow(10000.0, 2.0 * i / size);
      out[std::size_t{p} * size + i] = static_cast<float>(std::cos(angle));
      out[std::size_t{p} * size + size / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  return out;
}

// Norm (unless weight is empty) and rotation of one head, by one row of the table.
inline std::vector<double> norm_rope_reference(const float* head, const std::vector<float>& weight,
                                               const float* rope, std::uint32_t size) {
  double sum = 0;
  for (std::uint32_t i = 0; i < size; ++i) sum += double{head[i]} * head[i];
  const double scale = 1 / std::sqrt(sum / size + kHeadEps);
  std::vector<double> x(size);
  for (std::uint32_t i = 0; i < size; ++i) x[i] = weight.empty() ? head[i] : head[i] * scale * weight[i];
  std::vector<double> out(size);
  for (std::uint32_t i = 0; i < size / 2; ++i) {
    const std::uint32_t j = i + size / 2;
    out[i] = x[i] * rope[i] - x[j] * rope[j];
    out[j] = x[j] * rope[i] + x[i] * rope[j];
  }
  return out;
}

// One row's attention over keys 0..position of its sequence, [Hq * D], in double.
inline std::vector<double> attention_reference(const KvCase& kv, Heads heads, const float* q,
                                               std::uint32_t sequence, std::uint32_t position) {
  std::vector<double> out(std::size_t{heads.q} * heads.size);
  std::vector<double> weights(position + 1);
  for (std::uint32_t h = 0; h < heads.q; ++h) {
    const std::size_t kv_column = std::size_t{h / (heads.q / heads.kv)} * heads.size;
    double max = -1e300;
    for (std::uint32_t t = 0; t <= position; ++t) {
      const float* k = kv.k(sequence, t) + kv_column;
      double score = 0;
      for (std::uint32_t d = 0; d < heads.size; ++d) score += double{q[h * heads.size + d]} * k[d];
      weights[t] = score / std::sqrt(static_cast<double>(heads.size));
      max = std::max(max, weights[t]);
    }
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    for (std::uint32_t t = 0; t <= position; ++t) {
      const float* v = kv.v(sequence, t) + kv_column;
      for (std::uint32_t d = 0; d < heads.size; ++d) out[h * heads.size + d] += weights[t] / sum * v[d];
    }
  }
  return out;
}

}  // namespace lynx::cuda
