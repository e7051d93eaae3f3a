#include "loadtest/replay/row_text.h"

#include <charconv>
#include <cmath>
#include <optional>

namespace lynx {
namespace {

using std::chrono::nanoseconds;

constexpr double kMostTokens = 1e9;
constexpr double kMostSeconds = 4e9;  // more than a century: nanoseconds still fit

// Reads `digits` decimal digits off the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || *year < 1970 || *year > 2200) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

std::optional<nanoseconds> take_time_of_day(std::string_view& text) {
  const auto hour = take_digits(text, 2);
  if (!hour || !take(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || !take(text, ":")) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

std::optional<nanoseconds> take_fraction(std::string_view& text) {
  if (!take(text, ".")) return nanoseconds(0);
  std::int64_t value = 0;
  int digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits) {
    value = value * 10 + (text.front() - '0');
    text.remove_prefix(1);
    if (digits == 9) return std::nullopt;
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) value *= 10;
  return nanoseconds(value);
}

// What the zone adds to UTC.
std::optional<nanoseconds> take_zone(std::string_view& text) {
  if (text.empty() || take(text, "Z")) return nanoseconds(0);
  const bool west = text.front() == '-';
  if (!take(text, "+-")) return std::nullopt;
  const auto hours = take_digits(text, 2);
  if (!hours || !take(text, ":")) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *hours > 14 || *minutes > 59) return std::nullopt;
  const nanoseconds offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return west ? -offset : offset;
}

std::optional<double> parse_number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Error malformed(std::string reason) { return {ErrorCode::kCorrupt, std::move(reason)}; }

Result<std::vector<std::string>> split_csv(std::string_view row) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const char c = row[i];
    if (quoted && c == '"' && i + 1 < row.size() && row[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) return malformed("a quote is not closed");
  return fields;
}

Result<std::uint32_t> tokens_of(double value, std::string_view field) {
  if (!(value >= 1 && value <= kMostTokens) || value != std::floor(value))
    return malformed(std::string(field) + " is not a whole number of at least 1");
  return static_cast<std::uint32_t>(value);
}

Result<std::uint32_t> parse_tokens(std::string_view text, std::string_view field) {
  return tokens_of(parse_number(text).value_or(0), field);
}

Result<double> parse_seconds(std::string_view text, std::string_view field) {
  const auto value = parse_number(text);
  if (!value || *value < 0 || *value > kMostSeconds)
    return malformed(std::string(field) + " is not a time of at least 0");
  return *value;
}

nanoseconds nanoseconds_of(double seconds) { return nanoseconds(std::llround(seconds * 1e9)); }

Result<nanoseconds> parse_timestamp(std::string_view text) {
  const Error wrong = malformed("TIMESTAMP is not YYYY-MM-DD HH:MM:SS[.fraction][zone]");
  const auto date = take_date(text);
  if (!date || !take(text, " T")) return wrong;
  const auto time = take_time_of_day(text);
  if (!time) return wrong;
  const auto fraction = take_fraction(text);
  if (!fraction) return wrong;
  const auto zone = take_zone(text);
  if (!zone || !text.empty()) return wrong;
  return nanoseconds(date->time_since_epoch()) + *time + *fraction - *zone;
}

}  // namespace lynx
