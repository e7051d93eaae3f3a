#include "common/text/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "common/text/byte_level.h"

namespace lynx {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTokenId = 1 << 21;
// What GPT-2's byte-level step cuts at when its own pattern is on.
constexpr const char* kByteLevelPattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A value of the file that knows its own path.
class Place {
 public:
  Place(const json& value, std::string path, const std::string& file)
      : value_(&value), path_(std::move(path)), file_(&file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(*file_ + ": " + path_ + ": " + what);
  }

  const json& value() const { return *value_; }
  bool has(const std::string& key) const {
    return value_->is_object() && value_->contains(key) && !(*value_)[key].is_null();
  }
  Place at(const std::string& key) const {
    if (!value_->is_object()) fail("expected an object");
    if (!value_->contains(key)) Place(*value_, child(key), *file_).fail("is missing");
    return {(*value_)[key], child(key), *file_};
  }
  Place at(std::size_t i) const { return {(*value_)[i], path_ + "[" + std::to_string(i) + "]", *file_}; }
  std::size_t size() const {
    if (!value_->is_array()) fail("expected a list");
    return value_->size();
  }
  std::string text() const {
    if (!value_->is_string()) fail("expected a string");
    return value_->get<std::string>();
  }
  TokenId token() const {
    if (!value_->is_number_integer() || *value_ < 0 || *value_ >= kMaxTokenId)
      fail("expected a token id from 0 to " + std::to_string(kMaxTokenId - 1));
    return value_->get<TokenId>();
  }
  bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    const Place place = at(key);
    if (!place.value().is_boolean()) place.fail("expected true or false");
    return place.value().get<bool>();
  }
  // The field must be absent, null, false or empty: anything else asks for what is not supported.
  void must_be_off(const std::string& key) const {
    if (!has(key)) return;
    const json& value = (*value_)[key];
    const bool off = value == false || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
                     (value.is_number() && value == 0);
    if (!off) at(key).fail("is not supported");
  }

 private:
  std::string child(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const json* value_;
  std::string path_;
  const std::string* file_;
};

std::vector<AddedToken> read_added(const Place& root) {
  std::vector<AddedToken> added;
  if (!root.has("added_tokens")) return added;
  const Place list = root.at("added_tokens");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Place entry = list.at(i);
    AddedToken token{entry.at("id").token(), entry.at("content").text(), entry.flag("special", false),
                     entry.flag("lstrip", false), entry.flag("rstrip", false)};
    if (token.content.empty()) entry.at("content").fail("is empty");
    entry.must_be_off("single_word");
    added.push_back(std::move(token));
  }
  return added;
}

bool read_normalizer(const Place& root) {
  if (!root.has("normalizer")) return false;
  const Place normalizer = root.at("normalizer");
  const std::string type = normalizer.at("type").text();
  if (type == "NFC") return true;
  if (type == "Sequence" && normalizer.at("normalizers").size() == 0) return false;
  normalizer.at("type").fail("'" + type + "' is not supported; NFC and null are");
}

void read_split(const Place& step, TokenizerFile& file) {
  const Place pattern = step.at("pattern");
  const std::string behavior = step.at("behavior").text();
  if (behavior != "Isolated" && behavior != "Removed")
    step.at("behavior").fail("'" + behavior + "' is not supported; Isolated and Removed are");
  const bool literal = pattern.has("String");
  const Place source = pattern.at(literal ? "String" : "Regex");
  const std::string text = literal ? "\\Q" + source.text() + "\\E" : source.text();
  if (literal && source.text().find("\\E") != std::string::npos) source.fail("may not hold \\E");
  try {
    file.splits.push_back({SplitRegex(text), step.flag("invert", false), behavior == "Removed"});
  } catch (const std::runtime_error& error) {
    source.fail(error.what());
  }
}

void read_pre_tokenizer(const Place& step, TokenizerFile& file, bool& byte_level) {
  const std::string type = step.at("type").text();
  if (byte_level) step.fail("nothing may follow the ByteLevel step");
  if (type == "Sequence") {
    const Place list = step.at("pretokenizers");
    for (std::size_t i = 0; i < list.size(); ++i) read_pre_tokenizer(list.at(i), file, byte_level);
  } else if (type == "Split") {
    read_split(step, file);
  } else if (type == "ByteLevel") {
    byte_level = true;
    if (step.flag("add_prefix_space", true)) file.prefix_step = file.splits.size();
    if (step.flag("use_regex", true)) file.splits.push_back({SplitRegex(kByteLevelPattern), false, false});
  } else {
    step.at("type").fail("'" + type + "' is not supported; Sequence, Split and ByteLevel are");
  }
}

void read_vocabulary(const Place& model, TokenizerFile& file) {
  const Place vocabulary = model.at("vocab");
  if (!vocabulary.value().is_object()) vocabulary.fail("expected an object");
  for (const auto& [text, id] : vocabulary.value().items()) {
    const TokenId token = vocabulary.at(text).token();
    file.vocabulary.emplace(text, token);
    if (auto bytes = bytes_of_byte_level(text)) file.byte_vocabulary.emplace(std::move(*bytes), token);
  }
}

void read_merges(const Place& model, TokenizerFile& file) {
  const Place list = model.at("merges");
  const auto id = [&](const Place& place, const std::string& text) {
    const auto found = file.vocabulary.find(text);
    if (found == file.vocabulary.end()) place.fail("'" + text + "' is not in the vocabulary");
    return found->second;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Place entry = list.at(i);
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

void read_model(const Place& model, TokenizerFile& file) {
  const std::string type = model.at("type").text();
  if (type != "BPE") model.at("type").fail("'" + type + "' is not supported; BPE is");
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    model.must_be_off(key);
  file.ignore_merges = model.flag("ignore_merges", false);
  read_vocabulary(model, file);
  read_merges(model, file);
}

void check_ends(const Place& root) {
  const Place decoder = root.at("decoder");
  if (decoder.value().is_null() || decoder.at("type").text() != "ByteLevel")
    decoder.fail("only the ByteLevel decoder is supported");
  // ByteLevel there only moves offsets; a template would add tokens, which chat templates do themselves.
  if (root.has("post_processor") && root.at("post_processor").at("type").text() != "ByteLevel")
    root.at("post_processor").fail("only null and ByteLevel are supported");
  for (const char* key : {"truncation", "padding"})
    if (root.has(key)) root.at(key).fail("is not supported");
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::string& text, const std::string& name) {
  json parsed;
  try {
    parsed = json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(name + ": " + error.what());
  }
  const Place root(parsed, "", name);
  if (!parsed.is_object()) root.fail("expected an object");
  TokenizerFile file;
  file.added = read_added(root);
  file.nfc = read_normalizer(root);
  bool byte_level = false;
  if (root.has("pre_tokenizer")) read_pre_tokenizer(root.at("pre_tokenizer"), file, byte_level);
  if (!byte_level) root.at("pre_tokenizer").fail("a ByteLevel step is needed");
  read_model(root.at("model"), file);
  check_ends(root);
  return file;
}

}  // namespace lynx
