// UTF-8 by the rules of the Unicode standard, section 3.9: what is broken is replaced by U+FFFD, one for
// every maximal subpart, exactly as Rust's from_utf8_lossy and Python's errors="replace" do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lynx {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Utf8Step {
  enum class Kind : std::uint8_t { kValid, kBroken, kUnfinished };
  Kind kind = Kind::kValid;
  std::size_t length = 0;  // bytes it spans, at least 1
  char32_t codepoint = 0;  // when valid
};

// The first character of bytes (not empty). kUnfinished: a proper start of a character that the end cuts off.
Utf8Step utf8_step(std::string_view bytes);

bool is_valid_utf8(std::string_view bytes);
std::string repair_utf8(std::string_view bytes);  // valid text; an unfinished end is broken too
void append_utf8(std::string& out, char32_t codepoint);

}  // namespace lynx
