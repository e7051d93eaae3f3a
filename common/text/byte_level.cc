#include "common/text/byte_level.h"

#include <array>
#include <cstdint>

#include "common/text/utf8.h"

namespace lynx {
namespace {

constexpr char32_t kAlphabetEnd =
    256 + 68;  // 188 printable bytes stand for themselves, the other 68 for 256 and up

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr auto make_alphabet() {
  std::array<std::int16_t, kAlphabetEnd> byte_of{};
  for (auto& entry : byte_of) entry = -1;
  std::size_t next = 256;
  for (int byte = 0; byte < 256; ++byte)
    byte_of[stands_for_itself(byte) ? static_cast<std::size_t>(byte) : next++] =
        static_cast<std::int16_t>(byte);
  return byte_of;
}

constexpr auto kByteOf = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_byte_level(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Step::Kind::kValid || step.codepoint >= kAlphabetEnd || kByteOf[step.codepoint] < 0)
      return std::nullopt;
    out += static_cast<char>(kByteOf[step.codepoint]);
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace lynx
