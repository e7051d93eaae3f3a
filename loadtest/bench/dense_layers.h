// The dense kernels of a decode step with data to run on: several layers of weights and KV, so that a graph
// that goes through all of them finds nothing in L2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bench/device_graph.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/gemm.h"

namespace lynx::cuda {

struct DenseShape {
  std::string name;
  std::uint32_t hidden, q_heads, kv_heads, head_dim, experts, vocab;

  std::uint32_t q_size() const { return q_heads * head_dim; }
  std::uint32_t kv_size() const { return kv_heads * head_dim; }
  std::uint32_t qkv_size() const { return q_size() + 2 * kv_size(); }
};

// Weights [n, k] of several layers, inputs and outputs of up to `rows` rows.
class GemmLayers {
 public:
  GemmLayers(std::uint32_t n, std::uint32_t k, std::uint32_t rows);

  double weight_bytes() const { return 2.0 * n_ * k_; }
  double skinny_us(std::uint32_t rows, bool add) const;
  double cached_us(std::uint32_t rows, bool add) const;  // one layer again and again: from L2, if it fits
  double wide_us(std::uint32_t rows, bool add) const;
  double normed_us(std::uint32_t rows, bool apart) const;  // of f32 rows, normed first

 private:
  GemmArgs args(std::uint32_t layer, std::uint32_t rows, bool add) const;

  std::uint32_t n_, k_, layers_;
  DeviceBlock<std::uint16_t> weights_, x_;
  DeviceBlock<float> out_, hidden_, norm_;
};

// KV of `rows` sequences in several layers, blocks of 16 tokens in scattered order.
class KvLayers {
 public:
  KvLayers(const DenseShape& shape, std::uint32_t rows, std::uint32_t context);

  std::uint32_t layers() const { return layout_.layers; }
  std::uint32_t context() const { return context_; }
  double bytes_per_layer() const;
  KvLayer layer(std::uint32_t index) const { return kv_layer(pool_.get(), layout_, index); }
  StagedRows staged() const;    // row i at the last token of sequence i
  StagedRows all_rows() const;  // every token of sequence 0, for prefill

 private:
  PageLayout layout_;
  std::uint32_t context_;
  DeviceBlock<std::byte> pool_;
  DeviceBlock<std::uint32_t> positions_, first_sequence_, all_positions_;
  DeviceBlock<BlockId> tables_;
};

double decode_attention_us(const DenseShape& shape, const KvLayers& kv, std::uint32_t rows);
double prefill_attention_us(const DenseShape& shape, const KvLayers& kv,
                            std::uint32_t rows);  // the last rows

}  // namespace lynx::cuda
