// Zeroed host memory on a 4 KiB boundary, touched once so that no step pays for a page fault.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/tensor.h"

namespace lynx {

inline DeviceMemory allocate_aligned(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage + kPage;  // never empty
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return {data, [](std::byte* p) { std::free(p); }};
}

}  // namespace lynx
