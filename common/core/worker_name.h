#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace lynx {

// Of a worker: it stands in logs, metric labels and pages, so it is 1 to 128 of A-Z a-z 0-9 . _ -
inline bool is_worker_name(std::string_view name) {
  constexpr std::size_t kLongest = 128;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), fits);
}

}  // namespace lynx
