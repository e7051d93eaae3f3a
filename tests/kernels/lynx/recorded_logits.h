// Router logits of a trained model (64 experts, top-8), for tests.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lynx {

struct RecordedLogits {
  std::size_t layers = 0, sequences = 0, positions = 0, experts = 0;
  std::vector<float> values;  // [layers, sequences, positions, experts]

  std::span<const float> row(std::size_t layer, std::size_t sequence, std::size_t position) const {
    return std::span(values).subspan(((layer * sequences + sequence) * positions + position) * experts,
                                     experts);
  }
};

// The committed sample: 6 layers, 64 sequences, one position. Throws when it is damaged.
RecordedLogits sample_logits();

}  // namespace lynx
