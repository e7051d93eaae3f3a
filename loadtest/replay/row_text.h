// Pieces that the trace readers share: fields of a CSV row and checked numbers and times.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace lynx {

// Commas, double quotes as in RFC 4180 ("" inside quotes is one quote). A row is one line. Unclosed quotes
// are an error.
Result<std::vector<std::string>> split_csv(std::string_view row);

// A count of tokens: an integer in 1..1e9, also written 12.0. The error names the field.
Result<std::uint32_t> parse_tokens(std::string_view text, std::string_view field);
Result<std::uint32_t> tokens_of(double value, std::string_view field);

// Finite and >= 0. The error names the field.
Result<double> parse_seconds(std::string_view text, std::string_view field);
std::chrono::nanoseconds nanoseconds_of(double seconds);

// `YYYY-MM-DD HH:MM:SS[.fraction][zone]`, since 1970 UTC. A `T` may stand for the blank; the fraction has 1
// to 9 digits; the zone is Z, +HH:MM or -HH:MM, and UTC when absent.
Result<std::chrono::nanoseconds> parse_timestamp(std::string_view text);

Error malformed(std::string reason);

}  // namespace lynx
