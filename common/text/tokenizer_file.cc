#include "common/text/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/core/json_error.h"
#include "common/text/byte_level.h"
#include "common/text/json_place.h"
#include "common/text/oniguruma_pattern.h"

namespace lynx {
namespace {

using nlohmann::json;

constexpr int kMaxNesting = 8;  // of Sequence in Sequence; published files have one
// What GPT-2's byte-level step cuts at when its own pattern is on.
constexpr const char* kByteLevelPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::vector<AddedToken> read_added(const JsonPlace& root) {
  std::vector<AddedToken> added;
  if (!root.has("added_tokens")) return added;
  const JsonPlace list = root.at("added_tokens");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace entry = list.at(i);
    AddedToken token;
    token.id = entry.at("id").token();
    token.content = entry.at("content").text();
    token.special = entry.flag("special", false);
    token.lstrip = entry.flag("lstrip", false);
    token.rstrip = entry.flag("rstrip", false);
    token.single_word = entry.flag("single_word", false);
    token.normalized = entry.flag("normalized", false);
    if (token.content.empty()) entry.at("content").fail("is empty");
    added.push_back(std::move(token));
  }
  return added;
}

bool read_normalizer(const JsonPlace& root) {
  if (!root.has("normalizer")) return false;
  const JsonPlace normalizer = root.at("normalizer");
  const std::string type = normalizer.at("type").text();
  if (type == "NFC") return true;
  if (type == "Sequence" && normalizer.at("normalizers").size() == 0) return false;
  normalizer.at("type").fail("'" + type + "' is not supported; NFC and null are");
}

void read_split(const JsonPlace& step, TokenizerFile& file) {
  const JsonPlace pattern = step.at("pattern");
  const std::string behavior = step.at("behavior").text();
  if (behavior != "Isolated" && behavior != "Removed")
    step.at("behavior").fail("'" + behavior + "' is not supported; Isolated and Removed are");
  const bool literal = pattern.has("String");
  const JsonPlace source = pattern.at(literal ? "String" : "Regex");
  try {
    file.splits.push_back({SplitRegex(literal ? literal_pattern(source.text()) : source.text()),
                           step.flag("invert", false), behavior == "Removed"});
  } catch (const std::runtime_error& error) {
    source.fail(error.what());
  }
}

void read_pre_tokenizer(const JsonPlace& step, TokenizerFile& file, bool& byte_level, int depth = 0) {
  const std::string type = step.at("type").text();
  if (depth > kMaxNesting) step.fail("is nested too deeply");
  if (byte_level) step.fail("nothing may follow the ByteLevel step");
  if (type == "Sequence") {
    const JsonPlace list = step.at("pretokenizers");
    for (std::size_t i = 0; i < list.size(); ++i) read_pre_tokenizer(list.at(i), file, byte_level, depth + 1);
  } else if (type == "Split") {
    read_split(step, file);
  } else if (type == "ByteLevel") {
    byte_level = true;
    if (step.flag("add_prefix_space", true)) file.prefix_step = file.splits.size();
    if (step.flag("use_regex", true)) file.splits.push_back({SplitRegex(kByteLevelPattern), false, false});
  } else if (type == "Digits") {
    const bool alone = step.flag("individual_digits", false);
    file.splits.push_back({SplitRegex(alone ? R"(\p{N})" : R"(\p{N}+)"), false, false});
  } else {
    step.at("type").fail("'" + type + "' is not supported; Sequence, Split, Digits and ByteLevel are");
  }
}

void read_vocabulary(const JsonPlace& model, TokenizerFile& file) {
  const JsonPlace vocabulary = model.at("vocab");
  if (!vocabulary.value().is_object()) vocabulary.fail("expected an object");
  for (const auto& [text, id] : vocabulary.value().items()) {
    const TokenId token = vocabulary.at(text).token();
    file.vocabulary.emplace(text, token);
    if (auto bytes = bytes_of_byte_level(text)) file.byte_vocabulary.emplace(std::move(*bytes), token);
  }
}

void read_merges(const JsonPlace& model, TokenizerFile& file) {
  const JsonPlace list = model.at("merges");
  const auto id = [&](const JsonPlace& place, const std::string& text) {
    const auto found = file.vocabulary.find(text);
    if (found == file.vocabulary.end()) place.fail("'" + text + "' is not in the vocabulary");
    return found->second;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPlace entry = list.at(i);
    std::string left, right;
    if (entry.value().is_array()) {
      if (entry.size() != 2) entry.fail("expected two tokens");
      left = entry.at(std::size_t{0}).text();
      right = entry.at(std::size_t{1}).text();
    } else {
      const std::string both = entry.text();
      const std::size_t space = both.find(' ');
      if (space == std::string::npos) entry.fail("expected two tokens with a space between");
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    file.merges.push_back({id(entry, left), id(entry, right), id(entry, left + right)});
  }
}

void read_model(const JsonPlace& model, TokenizerFile& file) {
  const std::string type = model.at("type").text();
  if (type != "BPE") model.at("type").fail("'" + type + "' is not supported; BPE is");
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    model.must_be_off(key);
  file.ignore_merges = model.flag("ignore_merges", false);
  read_vocabulary(model, file);
  read_merges(model, file);
}

// The tokens that a TemplateProcessing puts before the text of a single sequence: BOS, mostly.
void read_template(const JsonPlace& step, TokenizerFile& file) {
  const JsonPlace single = step.at("single");
  bool text_seen = false;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonPlace part = single.at(i);
    if (part.has("Sequence")) {
      text_seen = true;
      continue;
    }
    const std::string name = part.at("SpecialToken").at("id").text();
    if (text_seen) part.fail("a token after the text is not supported");
    const JsonPlace ids = step.at("special_tokens").at(name).at("ids");
    for (std::size_t j = 0; j < ids.size(); ++j) file.prompt_prefix.push_back(ids.at(j).token());
  }
}

void read_post_processor(const JsonPlace& step, TokenizerFile& file, int depth = 0) {
  const std::string type = step.at("type").text();
  if (depth > kMaxNesting) step.fail("is nested too deeply");
  if (type == "ByteLevel") return;  // it moves offsets alone, which nobody asks for here
  if (type == "TemplateProcessing") return read_template(step, file);
  if (type != "Sequence")
    step.at("type").fail("'" + type + "' is not supported; Sequence, ByteLevel and TemplateProcessing are");
  const JsonPlace list = step.at("processors");
  for (std::size_t i = 0; i < list.size(); ++i) read_post_processor(list.at(i), file, depth + 1);
}

void check_decoder(const JsonPlace& root) {
  const JsonPlace decoder = root.at("decoder");
  if (decoder.value().is_null() || decoder.at("type").text() != "ByteLevel")
    decoder.fail("only the ByteLevel decoder is supported");
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::string& text, const std::string& name) {
  json parsed;
  try {
    parsed = json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(name + ": " + json_reason(error));
  }
  const JsonPlace root(parsed, "", name);
  if (!parsed.is_object()) root.fail("expected an object");
  TokenizerFile file;
  file.added = read_added(root);
  file.nfc = read_normalizer(root);
  bool byte_level = false;
  if (root.has("pre_tokenizer")) read_pre_tokenizer(root.at("pre_tokenizer"), file, byte_level);
  if (!byte_level) root.at("pre_tokenizer").fail("a ByteLevel step is needed");
  read_model(root.at("model"), file);
  if (root.has("post_processor")) read_post_processor(root.at("post_processor"), file);
  check_decoder(root);
  for (const char* key : {"truncation", "padding"})
    if (root.has(key)) root.at(key).fail("is not supported");
  return file;
}

}  // namespace lynx
