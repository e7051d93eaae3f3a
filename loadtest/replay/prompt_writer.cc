#include "loadtest/replay/prompt_writer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <stdexcept>
#include <utility>

#include "loadtest/replay/mix_bits.h"

namespace lynx {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  while (begin < text.size()) {
    while (begin < text.size() && is_space(text[begin])) ++begin;
    std::size_t end = begin;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

bool ends_sentence(std::string_view word) {
  return word.ends_with('.') || word.ends_with('?') || word.ends_with('!');
}

bool is_plain(std::string_view word) {
  return std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

PromptWriter::PromptWriter(std::string_view text, const CountTokens& count_tokens) {
  std::map<std::string, std::uint32_t> counted;
  std::vector<Word> sentence;
  for (const std::string_view word : split_words(text)) {
    const std::string spaced = " " + std::string(word);
    auto [at, is_new] = counted.try_emplace(spaced, 0);
    if (is_new) {
      at->second = static_cast<std::uint32_t>(count_tokens(spaced));
      if (at->second == 1 && is_plain(word)) fillers_.push_back(spaced);
    }
    if (at->second == 0) continue;
    sentence.push_back({spaced, at->second});
    if (ends_sentence(word)) sentences_.push_back(std::exchange(sentence, {}));
  }
  if (!sentence.empty()) sentences_.push_back(std::move(sentence));
  if (fillers_.empty() && count_tokens(".") == 1) fillers_.emplace_back(".");
  if (sentences_.empty() || fillers_.empty())
    throw std::runtime_error("the prompt text needs a sentence, and a word that is a single token");
}

void PromptWriter::append(std::string& out, std::uint64_t seed, std::uint32_t tokens) const {
  for (std::uint64_t n = 0; tokens > 0; ++n)
    for (const Word& word : sentences_[mix_bits(seed, n) % sentences_.size()]) {
      if (word.tokens > tokens) return fill(out, seed, tokens);
      out += word.text;
      tokens -= word.tokens;
    }
}

void PromptWriter::fill(std::string& out, std::uint64_t seed, std::uint32_t tokens) const {
  for (; tokens > 0; --tokens) out += fillers_[mix_bits(~seed, tokens) % fillers_.size()];
}

std::string PromptWriter::write(const PlannedRequest& request, std::uint32_t block_tokens) const {
  std::string prompt;
  std::uint32_t left = request.input_tokens;
  if (block_tokens > 0)
    for (const std::uint64_t id : request.hash_ids) {
      const std::uint32_t tokens = std::min(left, block_tokens);
      append(prompt, id, tokens);
      left -= tokens;
    }
  append(prompt, request.seed, left);
  return prompt;
}

}  // namespace lynx
