// How close two rows of numbers are.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace lynx::testing {

// ||got - want|| / ||want||.
inline double relative_error(const float* got, const float* want, std::size_t n) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    difference += std::pow(double{got[i]} - want[i], 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace lynx::testing
