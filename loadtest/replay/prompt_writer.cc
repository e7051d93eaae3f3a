#include "loadtest/replay/prompt_writer.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <stdexcept>
#include <utility>

#include "loadtest/replay/mix_bits.h"

namespace lynx {
namespace {

constexpr std::uint64_t kTopicDraw = 0x746F706963;  // a number of the seed that no text is drawn by

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

class PromptWriter::Reader {
 public:
  explicit Reader(const CountTokens& count_tokens) : count_tokens_(count_tokens) {}

  // A sentence ends at its mark; what is left after the last one is a sentence too.
  void read(std::string_view text) {
    Sentence sentence;
    for (const std::string_view word : split_words(text)) {
      const std::string spaced = " " + std::string(word);
      auto [at, is_new] = counted_.try_emplace(spaced, 0);
      if (is_new) {
        at->second = static_cast<std::uint32_t>(count_tokens_(spaced));
        if (at->second == 1 && is_plain(word)) topic_.fillers.push_back(spaced);
      }
      if (at->second == 0) continue;
      sentence.push_back({spaced, at->second});
      if (ends_sentence(word)) topic_.sentences.push_back(std::exchange(sentence, {}));
    }
    if (!sentence.empty()) topic_.sentences.push_back(std::move(sentence));
  }

  Topic take(const std::string& name) {
    if (topic_.fillers.empty() && count_tokens_(".") == 1) topic_.fillers.emplace_back(".");
    if (topic_.sentences.empty() || topic_.fillers.empty())
      throw std::runtime_error(name + " needs a sentence, and a word that is a single token");
    return std::move(topic_);
  }

 private:
  const CountTokens& count_tokens_;
  std::map<std::string, std::uint32_t> counted_;
  Topic topic_;
};

PromptWriter::PromptWriter(std::string_view text, const CountTokens& count_tokens) {
  Reader reader(count_tokens);
  reader.read(text);
  topics_.push_back(reader.take("the prompt text"));
}

PromptWriter::PromptWriter(const Topics& topics, std::uint32_t shared, const CountTokens& count_tokens)
    : shared_(shared) {
  for (std::size_t i = 0; i < topics.names.size(); ++i) {
    Reader reader(count_tokens);
    for (const std::string& prompt : topics.prompts[i]) reader.read(prompt);
    topics_.push_back(reader.take("topic '" + topics.names[i] + "'"));
  }
}

void PromptWriter::Topic::append(std::string& out, std::uint64_t seed, std::uint32_t tokens) const {
  for (std::uint64_t n = 0; tokens > 0; ++n)
    for (const Word& word : sentences[mix_bits(seed, n) % sentences.size()]) {
      if (word.tokens > tokens) return fill(out, seed, tokens);
      out += word.text;
      tokens -= word.tokens;
    }
}

void PromptWriter::Topic::fill(std::string& out, std::uint64_t seed, std::uint32_t tokens) const {
  for (; tokens > 0; --tokens) out += fillers[mix_bits(~seed, tokens) % fillers.size()];
}

std::string PromptWriter::write(const PlannedRequest& request, std::uint32_t block_tokens) const {
  std::string prompt;
  std::uint32_t left = request.input_tokens;
  // The topic of what is shared is shared too.
  const bool shares = block_tokens > 0 && !request.hash_ids.empty();
  const std::uint64_t drawn_by = shares ? request.hash_ids.front() : request.seed;
  const std::size_t of = mix_bits(drawn_by, kTopicDraw) % topics_.size();
  const Topic& topic = topics_[of];
  const std::uint32_t shared = std::min(left, shared_);
  topic.append(prompt, mix_bits(kTopicDraw, of), shared);
  left -= shared;
  if (block_tokens > 0)
    for (const std::uint64_t id : request.hash_ids) {
      const std::uint32_t tokens = std::min(left, block_tokens);
      topic.append(prompt, id, tokens);
      left -= tokens;
    }
  topic.append(prompt, request.seed, left);
  return prompt;
}

}  // namespace lynx
