#include "common/text/utf8.h"

namespace lynx {
namespace {

struct Lead {
  std::size_t length = 0;                // of the whole character; 0 = no lead byte
  std::uint8_t low = 0x80, high = 0xBF;  // range of the second byte: excludes overlong forms and surrogates
};

Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  using Kind = Utf8Step::Kind;
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  if (first < 0x80) return {Kind::kValid, 1, first};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {Kind::kBroken, 1, 0};
  char32_t codepoint = first & (0x7FU >> lead.length);
  std::uint8_t low = lead.low, high = lead.high;
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::kUnfinished, i, 0};
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    if (byte < low || byte > high) return {Kind::kBroken, i, 0};
    codepoint = codepoint << 6 | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kValid, lead.length, codepoint};
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (step.kind != Utf8Step::Kind::kValid) return false;
    bytes.remove_prefix(step.length);
  }
  return true;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    out += step.kind == Utf8Step::Kind::kValid ? bytes.substr(0, step.length) : kReplacement;
    bytes.remove_prefix(step.length);
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace lynx
