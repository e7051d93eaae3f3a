// Router logits for the layers that a graph of MoE layers goes through.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bench/recorded_logits.h"
#include "loadtest/bench/moe_layers.h"

namespace lynx {

using Logits = std::vector<std::vector<float>>;  // one [B, N] a layer of the graph

// Rows that choose freely among `among` experts, a fresh random set of them for every layer.
Logits random_logits(const cuda::MoeShape& shape, std::uint32_t rows, std::uint32_t among,
                     std::uint32_t seed);

// Exactly `unique` distinct experts, as evenly used as can be.
Logits forced_logits(const cuda::MoeShape& shape, std::uint32_t rows, std::uint32_t unique,
                     std::uint32_t seed);

// Recorded rows: neighbours in a recording are pieces of one document, so a batch takes sequences far apart.
Logits recorded_batches(const RecordedLogits& recorded, std::uint32_t rows);

}  // namespace lynx
