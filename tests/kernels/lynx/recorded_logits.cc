#include "tests/kernels/lynx/recorded_logits.h"
#include "tests/support/paths.h"

#include <zlib.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
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

template <typename T>
T read_at(std::string_view bytes, std::size_t at) {
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("npz: cut short");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The first member of a zip archive of deflated members, sizes taken from the first entry of the central
// directory.
std::string first_member(std::string_view zip) {
  const std::size_t directory = zip.find("PK\x01\x02");
  if (directory == std::string_view::npos) throw std::runtime_error("npz: no central directory");
  const auto size = read_at<std::uint32_t>(zip, directory + 24);
  const std::size_t data = 30U + read_at<std::uint16_t>(zip, 26) + read_at<std::uint16_t>(zip, 28);
  std::string out(size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zip.data() + data));
  stream.avail_in = static_cast<uInt>(directory - data);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = size;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::runtime_error("npz: zlib");
  const int outcome = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (outcome != Z_STREAM_END) throw std::runtime_error("npz: does not inflate");
  return out;
}

}  // namespace

RecordedLogits sample_logits() {
  RecordedLogits r{.layers = 6, .sequences = 64, .positions = 1, .experts = 64, .values = {}};
  r.values = halves(read_file(source_path("tests/kernels/lynx/data/router_logits_6x64x64.f16")));
  if (r.values.size() != 6U * 64 * 64) throw std::runtime_error("the sample of router logits is damaged");
  return r;
}

std::optional<RecordedLogits> whole_recording() {
  const char* shared = std::getenv("LYNX_SHARED");
  const std::filesystem::path folder = shared != nullptr ? shared : source_path("../shared");
  const auto path = folder / "pilot/router_logits.npz";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string npy = first_member(read_file(path));
  const std::size_t header = read_at<std::uint16_t>(npy, 8);
  if (npy.find("'<f2'") > header || npy.find("(6, 192, 64, 64)") > header)
    throw std::runtime_error("router_logits.npz is not float16 [6, 192, 64, 64]");
  return RecordedLogits{.layers = 6,
                        .sequences = 192,
                        .positions = 64,
                        .experts = 64,
                        .values = halves(std::string_view(npy).substr(10 + header))};
}

}  // namespace lynx
