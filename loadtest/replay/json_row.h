// One JSONL row of a trace with prefix identity: {timestamp, input_length, output_length, hash_ids, ...}.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace lynx {

struct JsonRow {
  double timestamp = 0;  // in the unit of the format
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> hash_ids{};
};

// Other keys are passed over.
Result<JsonRow> parse_json_row(std::string_view row);

}  // namespace lynx
