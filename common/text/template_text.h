// Python's string methods, as templates call them: whole characters, Unicode white space. Results longer than
// the limits of a template are refused with a TemplateError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lynx::jinja {

constexpr std::size_t kMaxTextBytes = 16 << 20;  // of any value: doubling a string must not eat the memory
constexpr std::size_t kMaxItems = 1 << 20;       // of any list

enum class Side : std::uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };
enum class Case : std::uint8_t { kUpper, kLower };

std::vector<std::string_view> characters_of(std::string_view text, int line);
std::string strip(std::string_view text, std::optional<std::string_view> characters, Side side);
// Character by character; of those that become several, only the sharp s is known.
std::string change_case(std::string_view text, Case to);
std::string capitalize(std::string_view text);
std::string concatenate(const std::string& left, const std::string& right, int line);
// At most `most` times; -1: all.
std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t most,
                    int line);
// At runs of white space without a separator. At most `most` cuts; -1: all.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator,
                                    std::int64_t most, int line);

}  // namespace lynx::jinja
