// The dense part of a decode step's layers, one after the other.
#pragma once

#include <cstdint>

#include "loadtest/bench/dense_layers.h"

namespace lynx::cuda {

// Everything of a layer but routing and experts, one launch after the other: norm, qkv, rope and store,
// attention, output projection, norm, router.
class DenseChain {
 public:
  DenseChain(const DenseShape& shape, const KvLayers& kv);
  double us(std::uint32_t rows) const;
  double bytes(std::uint32_t rows) const;  // of weights, and of the rows' KV

 private:
  void layer(std::uint32_t index, std::uint32_t rows, cudaStream_t stream) const;

  DenseShape shape_;
  const KvLayers& kv_;
  DeviceBlock<std::uint16_t> qkv_, o_, router_, normed_, attended_;
  DeviceBlock<float> hidden_, qkv_out_, logits_, norms_, rope_;
  DeviceBlock<std::byte> workspace_;
};

}  // namespace lynx::cuda
