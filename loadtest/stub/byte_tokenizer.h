// A tokenizer without merges, for stubs: one token per byte, then the control tokens <|im_start|> and
// <|im_end|>.
#pragma once

#include <cstdint>
#include <string>

namespace lynx {

inline constexpr std::uint32_t kStubTurnStart = 256;
inline constexpr std::uint32_t kStubTurnEnd = 257;

// The text of its tokenizer.json. Token id of byte b is b.
std::string byte_tokenizer_json();

}  // namespace lynx
