// The dense part of a decode step's layers, one after the other.
#pragma once

#include <cstdint>

#include "loadtest/bench/dense_layers.h"

namespace lynx::cuda {

enum class LayerPart {
  kAll,         // everything but routing and experts: the attention block, norm, router
  kBlock,       // norm, qkv, rope and store, attention, output projection: one launch where it may be
  kBlockApart,  // the same, one launch after the other
};

class DenseChain {
 public:
  DenseChain(const DenseShape& shape, const KvLayers& kv);
  double us(std::uint32_t rows, LayerPart part) const;
  // Of each BlockMark, us since the attention block of the layer before has ended: the median over blocks and
  // layers, and that over layers of the last block.
  std::vector<double> timeline(std::uint32_t rows) const;
  double bytes(std::uint32_t rows, LayerPart part) const;  // of weights, and of the rows' KV

 private:
  void layer(std::uint32_t index, std::uint32_t rows, LayerPart part, cudaStream_t stream,
             std::uint64_t* timeline = nullptr) const;

  DenseShape shape_;
  const KvLayers& kv_;
  DeviceBlock<std::uint16_t> qkv_, o_, router_, normed_, attended_;
  DeviceBlock<float> hidden_, qkv_out_, logits_, norms_, rope_;
  DeviceBlock<std::byte> workspace_;
  DeviceBlock<std::uint32_t> meetings_;
};

}  // namespace lynx::cuda
