// The kernels of a decode step that move little: what each costs as a launch.
#pragma once

#include <cstdint>

#include "loadtest/bench/dense_layers.h"

namespace lynx::cuda {

struct SmallOps {
  double rms_norm, rope_store, embed;
};
SmallOps small_ops_us(const DenseShape& shape, const KvLayers& kv, std::uint32_t rows);

double sample_us(std::uint32_t rows, std::uint32_t vocab, float temperature, float top_p,
                 std::uint32_t top_k);

}  // namespace lynx::cuda
