#include "tests/kernels/lynx/recorded_logits.h"
#include "tests/support/paths.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace lynx {
namespace {

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  // Rebasing the exponent by a product is exact and covers subnormals.
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path.string() + ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> halves(std::string_view bytes) {
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    values[i] = half_to_float(half);
  }
  return values;
}

}  // namespace

RecordedLogits sample_logits() {
  RecordedLogits r{.layers = 6, .sequences = 64, .positions = 1, .experts = 64, .values = {}};
  r.values = halves(read_file(source_path("tests/kernels/lynx/data/router_logits_6x64x64.f16")));
  if (r.values.size() != 6U * 64 * 64) throw std::runtime_error("the sample of router logits is damaged");
  return r;
}

}  // namespace lynx
