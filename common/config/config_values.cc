#include "common/config/config_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

namespace lynx::config {
namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;
using Numbers = std::map<std::string, double>;

// Long enough for anything a server waits for, short enough that adding it to a time point never overflows.
constexpr double kMaxMilliseconds = 10.0 * 365 * 24 * 3600 * 1000;

// The whole text as a number, nothing before or after it.
template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<milliseconds> parse_milliseconds(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    double milliseconds;
  };
  static constexpr std::array<Unit, 5> kUnits{{{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"", 1}}};
  const auto* unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return text.ends_with(u.suffix); });
  text.remove_suffix(unit->suffix.size());
  const auto number = parse_double(text);
  if (!number) return std::nullopt;
  const double total = *number * unit->milliseconds;
  if (total < 0 || total > kMaxMilliseconds || std::abs(total - std::round(total)) > 1e-6)
    return std::nullopt;
  return milliseconds(std::llround(total));
}

bool store(bool* out, std::string_view text) {
  if (text != "true" && text != "false") return false;
  *out = text == "true";
  return true;
}

bool store(std::string* out, std::string_view text) {
  *out = text;
  return true;
}

template <typename T>
bool store_if(T* out, const std::optional<T>& value) {
  if (value) *out = *value;
  return value.has_value();
}

bool store(double* out, std::string_view text) { return store_if(out, parse_double(text)); }
bool store(milliseconds* out, std::string_view text) { return store_if(out, parse_milliseconds(text)); }
bool store(Strings*, std::string_view) { return false; }
bool store(Numbers*, std::string_view) { return false; }

template <typename T>
  requires std::is_integral_v<T>
bool store(T* out, std::string_view text) {
  return store_if(out, parse_whole<T>(text));
}

std::string expected(const bool*) { return "true or false"; }
std::string expected(const double*) { return "a number"; }
std::string expected(const std::string*) { return "a string"; }
std::string expected(const milliseconds*) { return "a duration such as 250ms, 2s or 5m"; }
std::string expected(const Strings*) { return "a list of strings"; }
std::string expected(const Numbers*) { return "a map from names to numbers"; }

template <typename T>
  requires std::is_integral_v<T>
std::string expected(const T*) {
  using Limits = std::numeric_limits<T>;
  return "an integer from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max());
}

std::string print(const bool* value) { return *value ? "true" : "false"; }
std::string print(const double* value) { return print_double(*value); }
std::string print(const std::string* value) { return print_string(*value); }
std::string print(const milliseconds* value) { return std::to_string(value->count()) + "ms"; }
std::string print(const Strings*) { return {}; }
std::string print(const Numbers*) { return {}; }

template <typename T>
  requires std::is_integral_v<T>
std::string print(const T* value) {
  return std::to_string(*value);
}

// Text that YAML reads back as the same string without quotes, whatever the reader's idea of types.
bool is_plain(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto safe = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
  };
  if (text.empty() || !(letter(text[0]) || text[0] == '/') || !std::all_of(text.begin(), text.end(), safe))
    return false;
  static constexpr std::array<std::string_view, 7> kWords{"null", "true", "false", "yes", "no", "on", "off"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, change});
    }
  }
  return row.back();
}

}  // namespace

Shape shape_of(const ConfigFields::Target& target) {
  if (std::holds_alternative<Strings*>(target)) return Shape::kList;
  if (std::holds_alternative<Numbers*>(target)) return Shape::kMap;
  return Shape::kScalar;
}

std::string expectation(const ConfigFields::Target& target) {
  return std::visit([](const auto* out) { return expected(out); }, target);
}

bool set_scalar(const ConfigFields::Target& target, std::string_view text) {
  return std::visit([&](auto* out) { return store(out, text); }, target);
}

bool may_be_quoted(const ConfigFields::Target& target) {
  return std::holds_alternative<std::string*>(target) || std::holds_alternative<milliseconds*>(target);
}

std::optional<double> parse_double(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string print_scalar(const ConfigFields::Target& target) {
  return std::visit([](const auto* value) { return print(value); }, target);
}

std::string print_double(double value) {
  std::array<char, 32> text{};
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), value);  // shortest that reads back equal
  return {text.data(), result.ptr};
}

std::string print_string(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string suggestion(std::string_view given, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = 1 + given.size() / 4;  // further away it would be a guess
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(given, candidate);
    if (distance > best_distance || (best != nullptr && distance == best_distance)) continue;
    best = &candidate;
    best_distance = distance;
  }
  return best == nullptr ? "" : ", did you mean '" + *best + "'?";
}

}  // namespace lynx::config
