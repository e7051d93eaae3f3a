#include "services/router/logprob_text.h"

#include <algorithm>
#include <utility>

#include "services/router/json_text.h"

namespace lynx {
namespace {

void separate(std::string& list) {
  if (!list.empty()) list += ',';
}

std::size_t characters(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void LogprobText::push(const GeneratedToken& token) {
  kind_ == ApiKind::kChat ? push_chat(token) : push_completion(token);
}

// {"token":"a","logprob":-0.1,"bytes":[97]  -- left open for top_logprobs
void LogprobText::append_chat_entry(std::string& out, TokenId id, float logprob) const {
  const auto bytes = tokenizer_.bytes(id);
  out += R"({"token":)";
  append_json_string(out, bytes);
  out += R"(,"logprob":)";
  append_json_number(out, logprob);
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json_number(out, std::uint64_t{static_cast<unsigned char>(bytes[i])});
  }
  out += ']';
}

void LogprobText::push_chat(const GeneratedToken& token) {
  separate(entries_);
  append_chat_entry(entries_, token.id, token.logprob);
  entries_ += R"(,"top_logprobs":[)";
  for (std::size_t i = 0; i < std::min(top_, token.top.size()); ++i) {
    if (i > 0) entries_ += ',';
    append_chat_entry(entries_, token.top[i].token, token.top[i].logprob);
    entries_ += '}';
  }
  entries_ += "]}";
}

void LogprobText::push_completion(const GeneratedToken& token) {
  for (auto* list : {&tokens_, &logprobs_, &tops_, &offsets_}) separate(*list);
  append_json_string(tokens_, tokenizer_.bytes(token.id));
  append_json_number(logprobs_, token.logprob);
  append_json_number(offsets_, std::uint64_t{offset_});
  if (token.finish != TokenFinish::kStop) offset_ += characters(tokenizer_.bytes(token.id));

  tops_ += '{';
  bool sampled_listed = false;
  const auto append = [&](TokenId id, float logprob) {
    if (tops_.back() != '{') tops_ += ',';
    append_json_string(tops_, tokenizer_.bytes(id));
    tops_ += ':';
    append_json_number(tops_, logprob);
    sampled_listed = sampled_listed || id == token.id;
  };
  for (std::size_t i = 0; i < std::min(top_, token.top.size()); ++i)
    append(token.top[i].token, token.top[i].logprob);
  if (!sampled_listed) append(token.id, token.logprob);
  tops_ += '}';
}

std::string LogprobText::take() {
  if (kind_ == ApiKind::kChat) return R"({"content":[)" + std::exchange(entries_, {}) + "]}";
  return R"({"tokens":[)" + std::exchange(tokens_, {}) + R"(],"token_logprobs":[)" +
         std::exchange(logprobs_, {}) + R"(],"top_logprobs":[)" + std::exchange(tops_, {}) +
         R"(],"text_offset":[)" + std::exchange(offsets_, {}) + "]}";
}

}  // namespace lynx
