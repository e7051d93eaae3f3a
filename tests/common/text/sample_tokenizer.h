// A tokenizer.json small enough to read, whose ids 0 to 255 are the bytes, with a few merges and added
// tokens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/text/utf8.h"

namespace lynx::testing {

// GPT-2's character for a byte.
inline std::string byte_level_character(int byte) {
  const auto stands_for_itself = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int character = byte;
  if (!stands_for_itself(byte)) {
    character = 256;
    for (int before = 0; before < byte; ++before) character += stands_for_itself(before) ? 0 : 1;
  }
  std::string out;
  append_utf8(out, static_cast<char32_t>(character));
  return out;
}

inline std::string sample_tokenizer() {
  using nlohmann::json;
  json vocabulary = json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_level_character(byte)] = byte;
  json merges = json::array();
  int next = 256;
  for (const auto& [left, right] :
       {std::pair<std::string, std::string>{"a", "b"}, {"ab", "ab"}, {"Ġ", "Ġ"}}) {
    merges.push_back({left, right});
    vocabulary[left + right] = next++;
  }
  json added = json::array();
  added.push_back({{"id", next++}, {"content", "<|end|>"}, {"special", true}});
  added.push_back({{"id", next++}, {"content", "<tool>"}, {"special", false}});
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", R"( ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}},
                      {"behavior", "Isolated"}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json file = {{"added_tokens", added},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
  return file.dump();
}

}  // namespace lynx::testing
