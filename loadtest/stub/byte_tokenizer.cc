#include "loadtest/stub/byte_tokenizer.h"

#include <nlohmann/json.hpp>

namespace lynx {
namespace {

// Byte-level BPE writes each byte as a visible character: printable Latin-1 as itself, the others from U+0100
// on.
bool is_visible(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

std::string utf8(unsigned code) {  // below U+0800
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

nlohmann::json control_token(std::uint32_t id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string byte_tokenizer_json() {
  auto vocab = nlohmann::json::object();
  unsigned next_hidden = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) vocab[utf8(is_visible(byte) ? byte : next_hidden++)] = byte;
  const nlohmann::json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return nlohmann::json{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {control_token(kStubTurnStart, "<|im_start|>"), control_token(kStubTurnEnd, "<|im_end|>")}},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", vocab},
        {"merges", nlohmann::json::array()}}}}
      .dump();
}

}  // namespace lynx
