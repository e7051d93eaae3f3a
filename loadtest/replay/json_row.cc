#include "loadtest/replay/json_row.h"

#include <nlohmann/json.hpp>

#include "loadtest/replay/row_text.h"

namespace lynx {
namespace {

using nlohmann::json;

Result<double> number_at(const json& row, const char* key) {
  const auto at = row.find(key);
  if (at == row.end() || !at->is_number()) return malformed(std::string(key) + " is missing or no number");
  return at->get<double>();
}

Result<std::uint32_t> tokens_at(const json& row, const char* key) {
  const auto number = number_at(row, key);
  if (!number) return number.error();
  return tokens_of(*number, key);
}

Result<std::vector<std::uint64_t>> hash_ids_of(const json& row) {
  const auto ids = row.find("hash_ids");
  if (ids == row.end() || !ids->is_array()) return malformed("hash_ids is missing or no list");
  std::vector<std::uint64_t> out;
  out.reserve(ids->size());
  for (const json& id : *ids) {
    if (!id.is_number_integer() || id < 0)
      return malformed("hash_ids holds something else than integers of at least 0");
    out.push_back(id.get<std::uint64_t>());
  }
  return out;
}

}  // namespace

Result<JsonRow> parse_json_row(std::string_view row) {
  const json parsed = json::parse(row, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return malformed("not a JSON object");
  const auto timestamp = number_at(parsed, "timestamp");
  if (!timestamp) return timestamp.error();
  if (!(*timestamp >= 0 && *timestamp <= 4e12)) return malformed("timestamp is out of range");
  const auto input = tokens_at(parsed, "input_length");
  if (!input) return input.error();
  const auto output = tokens_at(parsed, "output_length");
  if (!output) return output.error();
  auto ids = hash_ids_of(parsed);
  if (!ids) return ids.error();
  return JsonRow{*timestamp, *input, *output, std::move(*ids)};
}

}  // namespace lynx
