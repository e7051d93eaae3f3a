#include "kernels/bench/recorded_logits.h"

#include <zlib.h>

#include <bit>
#include <cstdint>
#include <cstring>
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

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened");
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

RecordedLogits read_recorded_logits(const std::string& path) {
  const std::string file = read_file(path);
  RecordedLogits r{.layers = 6, .sequences = 64, .positions = 1, .experts = 64, .values = {}};
  if (path.ends_with(".npz")) {
    const std::string npy = first_member(file);
    const std::size_t header = read_at<std::uint16_t>(npy, 8);
    if (npy.find("'<f2'") > header || npy.find("(6, 192, 64, 64)") > header)
      throw std::runtime_error(path + ": not float16 [6, 192, 64, 64]");
    r.sequences = 192;
    r.positions = 64;
    r.values = halves(std::string_view(npy).substr(10 + header));
  } else {
    r.values = halves(file);
  }
  if (r.values.size() != r.layers * r.sequences * r.positions * r.experts)
    throw std::runtime_error(path + ": not as many values as a recording has");
  return r;
}

}  // namespace lynx
