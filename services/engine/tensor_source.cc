#include "services/engine/tensor_source.h"

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "common/core/read_file.h"
#include "services/engine/fingerprint.h"
#include "services/engine/json_object.h"

namespace lynx {
namespace {

constexpr std::size_t kPlaces = 1 << 18;  // where a dummy tensor may start in the run of values

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

std::string to_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "[";
  for (const std::uint64_t extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + "]";
}

Dtype dtype_of(const std::string& file, const std::string& name, const SafetensorsEntry& entry) {
  if (entry.dtype == "BF16") return Dtype::kBf16;
  if (entry.dtype == "F32") return Dtype::kF32;
  fail(file, name + ": dtype " + entry.dtype + " is not supported, only BF16 and F32");
}

// weight_map of the index: which file holds which tensor.
std::map<std::string, std::string> read_weight_map(const std::string& index) {
  const JsonObject json(read_file(index), index);
  const nlohmann::json* map = json.find("weight_map");
  if (map == nullptr || !map->is_object()) json.fail("weight_map", "expected an object");
  std::map<std::string, std::string> out;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) json.fail("weight_map." + name, "expected a file name");
    const auto text_name = file.get<std::string>();
    if (text_name.empty() || std::filesystem::path(text_name).filename() != text_name) {
      json.fail("weight_map." + name, "expected the name of a file in this folder, got '" + text_name + "'");
    }
    out.emplace(name, text_name);
  }
  return out;
}

// splitmix64: a good hash of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

CheckpointFolder::CheckpointFolder(const std::string& folder) : folder_(folder) {
  const std::string index = folder + "/model.safetensors.index.json";
  if (std::filesystem::exists(index)) {
    open_shards(folder, index);
  } else {
    open_file(folder + "/model.safetensors");
  }
}

void CheckpointFolder::open_file(const std::string& path) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  auto header = parse_safetensors(mapped->bytes());
  if (!header) fail(path, header.error().message);
  for (auto& [name, entry] : *header) {
    const auto [place, fresh] = places_.emplace(name, Place{path, mapped, std::move(entry)});
    if (!fresh) fail(path, name + ": also in " + place->second.file);
  }
}

void CheckpointFolder::open_shards(const std::string& folder, const std::string& index) {
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  for (const std::string& file : files) open_file((folder + "/").append(file));
  for (const auto& [name, file] : weight_map) {
    const auto place = places_.find(name);
    if (place == places_.end() || place->second.file != (folder + "/").append(file)) {
      fail(index, "weight_map." + name + ": not in " + file);
    }
  }
  if (places_.size() != weight_map.size())
    fail(index, "weight_map: the files hold tensors that it does not list");
}

HostTensor CheckpointFolder::tensor(const std::string& name, const std::vector<std::uint64_t>& shape) {
  const auto found = places_.find(name);
  if (found == places_.end()) fail(folder_, name + ": missing in the weights");
  const Place& place = found->second;
  if (place.entry.shape != shape) {
    fail(place.file,
         name + ": shape " + to_text(place.entry.shape) + ", but config.json asks for " + to_text(shape));
  }
  used_.insert(name);
  return {.name = place.file + ": " + name,
          .dtype = dtype_of(place.file, name, place.entry),
          .shape = shape,
          .bytes = place.mapped->bytes().subspan(place.entry.begin, place.entry.end - place.entry.begin),
          .owner = place.mapped};
}

void CheckpointFolder::check_all_used() const {
  for (const auto& [name, place] : places_) {
    if (!used_.contains(name)) fail(place.file, name + ": this architecture has no such tensor");
  }
}

std::uint64_t CheckpointFolder::fingerprint() const {
  constexpr std::uint64_t kSample = 64;  // bytes at the start, in the middle and at the end of each tensor
  Fingerprint hash;
  for (const auto& [name, place] : places_) {
    hash.add(name);
    hash.add(place.entry.dtype);
    for (const std::uint64_t extent : place.entry.shape) hash.add(extent);
    const auto bytes = place.mapped->bytes().subspan(place.entry.begin, place.entry.end - place.entry.begin);
    const std::uint64_t sample = std::min<std::uint64_t>(kSample, bytes.size());
    for (const std::uint64_t at : {std::uint64_t{0}, (bytes.size() - sample) / 2, bytes.size() - sample}) {
      hash.add(bytes.subspan(at, sample));
    }
  }
  return hash.value();
}

HostTensor DummyTensors::tensor(const std::string& name, const std::vector<std::uint64_t>& shape) {
  std::size_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  std::shared_ptr<Values> values;
  std::size_t start = 0;
  if (name.find("norm") != std::string::npos) {
    values = std::make_shared<Values>(count, f32_to_bf16(1.0F));
  } else {
    Fingerprint hash;
    hash.add(name);
    hash.add(seed_);
    start = hash.value() % kPlaces;
    values = values_for(shape.back(), start + count);
  }
  return {.name = name,
          .dtype = Dtype::kBf16,
          .shape = shape,
          .bytes = std::as_bytes(std::span(*values).subspan(start, count)),
          .owner = values};
}

// At least so many of the values for that many columns; a longer run begins with the shorter one's.
const std::shared_ptr<DummyTensors::Values>& DummyTensors::values_for(std::uint64_t columns,
                                                                      std::size_t count) {
  std::shared_ptr<Values>& values = values_[columns];
  if (values && values->size() >= count) return values;
  values = std::make_shared<Values>(count + kPlaces);  // whoever holds a window of the old one keeps it
  const float width = 2 * std::sqrt(3.0F / static_cast<float>(columns));
  const std::uint64_t first = mix(seed_ + columns);
  for (std::size_t i = 0; i < values->size(); ++i) {
    const float unit = static_cast<float>(mix(first + i) >> 40) * 0x1p-24F;
    (*values)[i] = f32_to_bf16((unit - 0.5F) * width);
  }
  return values;
}

std::uint64_t DummyTensors::fingerprint() const { return mix(seed_); }

}  // namespace lynx
