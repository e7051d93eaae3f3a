// Router logits of a trained model (64 experts, top-8), for tests and benchmarks.
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

// A recording of float16 values: an .npz with the one array [6, 192, 64, 64], or the bare values of the
// committed sample, [6, 64, 1, 64]. Throws std::runtime_error naming the file.
RecordedLogits read_recorded_logits(const std::string& path);

}  // namespace lynx
