#include "services/engine/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian, and is read as it lies");

namespace lynx {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation

Error corrupt(const std::string& place, const std::string& what) {
  return {ErrorCode::kCorrupt, place.empty() ? what : place + ": " + what};
}

// Parses an object in which no key stands twice at any depth (nlohmann would silently keep the last).
Result<Json> parse_without_duplicates(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string duplicate;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      duplicate = value.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text, watch);
    if (!duplicate.empty()) return corrupt("header", "key '" + duplicate + "' stands twice");
    if (!json.is_object()) return corrupt("header", "not a JSON object");
    return json;
  } catch (const Json::exception& error) {
    return corrupt("header", error.what());
  }
}

// Product of the shape and the element size; nothing on overflow.
std::optional<std::uint64_t> byte_count(const std::vector<std::uint64_t>& shape, std::uint64_t element) {
  std::uint64_t total = element;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  }
  return total;
}

Result<std::vector<std::uint64_t>> read_numbers(const std::string& name, const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return corrupt(name, std::string(key) + " is not a list");
  std::vector<std::uint64_t> out;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned())
      return corrupt(name, std::string(key) + " holds something else than whole numbers");
    out.push_back(item.get<std::uint64_t>());
  }
  return out;
}

Result<SafetensorsEntry> read_entry(const std::string& name, const Json& json, std::uint64_t data_bytes) {
  if (!json.is_object() || json.size() != 3) return corrupt(name, "expected dtype, shape and data_offsets");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return corrupt(name, "dtype is not a string");
  SafetensorsEntry entry;
  entry.dtype = dtype->get<std::string>();
  const std::uint64_t element = safetensors_dtype_bytes(entry.dtype);
  if (element == 0) return corrupt(name, "unknown dtype '" + entry.dtype + "'");

  auto shape = read_numbers(name, json, "shape");
  if (!shape) return shape.error();
  entry.shape = std::move(*shape);
  auto offsets = read_numbers(name, json, "data_offsets");
  if (!offsets) return offsets.error();
  if (offsets->size() != 2) return corrupt(name, "data_offsets are not two numbers");
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return corrupt(name, "data_offsets " + std::to_string(entry.begin) + ".." + std::to_string(entry.end) +
                             " lie outside the data of " + std::to_string(data_bytes) + " bytes");
  }
  if (byte_count(entry.shape, element) != entry.end - entry.begin) {
    return corrupt(name, "dtype and shape do not make the " + std::to_string(entry.end - entry.begin) +
                             " bytes of its data_offsets");
  }
  return entry;
}

// Tensors in order of their bytes must follow each other exactly, from 0 to the end.
Status check_coverage(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::vector<SafetensorsHeader::const_iterator> order;
  for (auto it = header.begin(); it != header.end(); ++it) order.push_back(it);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t at = 0;
  for (const auto& it : order) {
    if (it->second.begin < at) return corrupt(it->first, "overlaps the tensor before it");
    if (it->second.begin > at) return corrupt(it->first, "leaves a gap before it");
    at = it->second.end;
  }
  if (at != data_bytes) return corrupt("", "bytes after the last tensor");
  return {};
}

}  // namespace

std::uint64_t safetensors_dtype_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::uint64_t> kTypes[] = {
      {"F64", 8}, {"I64", 8},     {"U64", 8},     {"F32", 4},  {"I32", 4},
      {"U32", 4}, {"F16", 2},     {"BF16", 2},    {"I16", 2},  {"U16", 2},
      {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}, {"U8", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) return corrupt("", "shorter than its 8-byte header length");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeader)
    return corrupt("", "header of " + std::to_string(length) + " bytes is over the limit of 100 MB");
  if (length > file.size() - kLengthBytes) {
    return corrupt(
        "", "header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) return corrupt("header", "does not start with '{'");
  auto json = parse_without_duplicates(text);
  if (!json) return json.error();

  const std::uint64_t data_bytes = file.size() - kLengthBytes - length;
  SafetensorsHeader header;
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") continue;
    auto entry = read_entry(name, value, data_bytes);
    if (!entry) return entry.error();
    header.emplace(name, std::move(*entry));
  }
  if (const Status covered = check_coverage(header, data_bytes); !covered) return covered.error();
  for (auto& [name, entry] : header) {
    entry.begin += kLengthBytes + length;
    entry.end += kLengthBytes + length;
  }
  return header;
}

MappedFile::MappedFile(const std::string& path) {
  const auto fail = [&](int error) {
    throw std::runtime_error(path + ": " + std::generic_category().message(error));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(errno);
  struct stat info = {};
  const bool usable = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void* data = nullptr;
  int error = usable ? 0 : EINVAL;
  if (usable && info.st_size > 0) {
    size_ = static_cast<std::size_t>(info.st_size);
    data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  ::close(fd);
  if (error != 0) fail(error);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace lynx
