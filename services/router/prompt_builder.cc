#include "services/router/prompt_builder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lynx {
namespace {

// U+FDD0, a noncharacter: no text holds it for good reason. It marks control tokens that a message spells
// out, so that they stand apart from those of the template after rendering.
constexpr std::string_view kMark = "\xEF\xB7\x90";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

ApiError no_room(const std::string& field, std::uint64_t context) {
  return bad_field(field, "'" + field + "' fills the context of " + std::to_string(context) +
                              " tokens: there is no room for an answer");
}

ApiError too_long(const std::string& field, std::uint64_t context) {
  return bad_field(field,
                   "'" + field + "' is longer than the context of " + std::to_string(context) + " tokens");
}

}  // namespace

PromptBuilder::PromptBuilder(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat)
    : tokenizer_(tokenizer), chat_(std::move(chat)) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto bytes = tokenizer.bytes(id);
    longest_token_ = std::max(longest_token_, bytes.size());
    if (!tokenizer.is_special(id) || bytes.empty()) continue;
    control_tokens_.emplace_back(bytes, id);
    starts_control_[static_cast<unsigned char>(bytes[0])] = true;
  }
  std::stable_sort(control_tokens_.begin(), control_tokens_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::optional<ApiError> PromptBuilder::build(const ApiRequest& request, std::uint64_t context,
                                             std::vector<std::vector<TokenId>>& out) const {
  if (request.kind == ApiKind::kChat) return build_chat(request, context, out.emplace_back());
  for (const Prompt& prompt : request.prompts) {
    auto& tokens = out.emplace_back();
    if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt)) {
      tokens = *given;
    } else {
      if (auto error = encode_text(std::get<std::string>(prompt), context, "prompt", tokens)) return error;
      const auto prefix = tokenizer_.prompt_prefix();
      tokens.insert(tokens.begin(), prefix.begin(), prefix.end());
    }
    if (tokens.empty()) return bad_field("prompt", "'prompt' must hold at least one token");
    if (tokens.size() > context) return too_long("prompt", context);
    if (tokens.size() == context) return no_room("prompt", context);
  }
  return std::nullopt;
}

std::optional<ApiError> PromptBuilder::encode_text(const std::string& text, std::uint64_t context,
                                                   const std::string& field,
                                                   std::vector<TokenId>& out) const {
  if (text.size() / longest_token_ > context) return too_long(field, context);
  out = tokenizer_.encode(text);
  return std::nullopt;
}

std::optional<ApiError> PromptBuilder::build_chat(const ApiRequest& request, std::uint64_t context,
                                                  std::vector<TokenId>& out) const {
  if (!chat_) return bad_field("messages", "the served model has no chat template; use /v1/completions");
  bool guarded = false;
  auto messages = nlohmann::json::array();
  for (const auto& message : request.messages) {
    nlohmann::json entry{{"role", message.role}, {"content", guard(message.content, guarded)}};
    if (!message.name.empty()) entry["name"] = guard(message.name, guarded);
    messages.push_back(std::move(entry));
  }
  const auto rendered = chat_->render(messages, true);
  if (!rendered) return bad_field("messages", rendered.error().message);
  if (guarded) {
    if (rendered->size() / longest_token_ > context) return too_long("messages", context);
    out = encode_guarded(*rendered);
  } else if (auto error = encode_text(*rendered, context, "messages", out)) {
    return error;
  }
  if (out.size() > context) return too_long("messages", context);
  if (out.size() == context) return no_room("messages", context);
  return std::nullopt;
}

const std::pair<std::string, TokenId>* PromptBuilder::control_at(const std::string& text,
                                                                 std::size_t at) const {
  if (!starts_control_[static_cast<unsigned char>(text[at])]) return nullptr;
  const auto found = std::find_if(control_tokens_.begin(), control_tokens_.end(), [&](const auto& token) {
    return text.compare(at, token.first.size(), token.first) == 0;
  });
  return found == control_tokens_.end() ? nullptr : &*found;
}

// Puts a mark before every control token that the content spells out.
std::string PromptBuilder::guard(std::string content, bool& guarded) const {
  replace_all(content, kMark, kReplacement);
  std::string out;
  for (std::size_t at = 0; at < content.size(); ++at) {
    if (control_at(content, at) != nullptr) {
      guarded = true;
      out += kMark;
    }
    out += content[at];
  }
  return out;
}

// Control tokens without a mark are the template's; what lies between them is plain text.
std::vector<TokenId> PromptBuilder::encode_guarded(const std::string& rendered) const {
  std::vector<TokenId> out;
  std::string plain;
  const auto flush = [&] {
    const auto tokens = tokenizer_.encode(plain, false);
    out.insert(out.end(), tokens.begin(), tokens.end());
    plain.clear();
  };
  for (std::size_t at = 0; at < rendered.size();) {
    if (rendered.compare(at, kMark.size(), kMark) == 0) {
      at += kMark.size();
      if (at < rendered.size()) plain += rendered[at++];
    } else if (const auto* control = control_at(rendered, at)) {
      flush();
      out.push_back(control->second);
      at += control->first.size();
    } else {
      plain += rendered[at++];
    }
  }
  flush();
  return out;
}

}  // namespace lynx
