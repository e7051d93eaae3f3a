// The byte-level alphabet of GPT-2: every byte has a printable character, so that a vocabulary of text can
// hold any bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lynx {

// The bytes that a token text stands for; nothing when a character is outside the alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view text);

}  // namespace lynx
