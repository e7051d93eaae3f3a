#include "services/router/openai_reply.h"

#include "services/router/json_text.h"

namespace lynx {
namespace {

// "id":...,"object":...,"created":...,"model":...
void append_head(std::string& out, const ReplyHead& head, std::string_view object) {
  out += R"("id":)";
  append_json_string(out, head.id);
  out += R"(,"object":")";
  out += object;
  out += R"(","created":)";
  append_json_number(out, head.created);
  out += R"(,"model":)";
  append_json_string(out, head.model);
}

// ,"logprobs":...,"finish_reason":...}   -- the end of a choice
void append_tail(std::string& out, const ReplyPiece& piece) {
  out += R"(,"logprobs":)";
  out += piece.logprobs.empty() ? "null" : piece.logprobs;
  if (piece.finish.empty()) {
    out += R"(,"finish_reason":null})";
    return;
  }
  out += R"(,"finish_reason":")";
  out += piece.finish;
  out += "\"}";
}

// ,"lynx":{...}
void append_receipt(std::string& out, const Receipt& receipt) {
  const auto real = [&](const char* key, double value) {
    out += key;
    append_json_number(out, static_cast<float>(value));
  };
  out += R"(,"lynx":{"steps":)";
  append_json_number(out, receipt.steps());
  real(R"(,"remapped_share":)", receipt.remapped_share());
  real(R"(,"router_mass":{"mean":)", receipt.router_mass_mean());
  real(R"(,"worst_step":)", receipt.router_mass_worst());
  real(R"(},"batch":{"mean":)", receipt.batch_mean());
  out += R"(,"max":)";
  append_json_number(out, std::uint64_t{receipt.batch_max()});
  out += "}}";
}

// "usage":{...}
void append_usage(std::string& out, const Usage& usage) {
  out += R"("usage":{"prompt_tokens":)";
  append_json_number(out, usage.prompt_tokens);
  out += R"(,"completion_tokens":)";
  append_json_number(out, usage.completion_tokens);
  out += R"(,"total_tokens":)";
  append_json_number(out, usage.prompt_tokens + usage.completion_tokens);
  if (usage.receipt) append_receipt(out, *usage.receipt);
  out += '}';
}

void append_index(std::string& out, std::uint32_t choice) { append_json_number(out, std::uint64_t{choice}); }

}  // namespace

StreamReply::StreamReply(const ReplyHead& head, bool usage_follows) : kind_(head.kind), common_("data: {") {
  append_head(common_, head, kind_ == ApiKind::kChat ? "chat.completion.chunk" : "text_completion");
  common_ += ',';
  chunk_ = common_;
  if (usage_follows) chunk_ += R"("usage":null,)";
  chunk_ += R"("choices":[{"index":)";
}

void StreamReply::role(std::string& out, std::uint32_t choice) const {
  out += chunk_;
  append_index(out, choice);
  out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})";
  out += "\n\n";
}

void StreamReply::piece(std::string& out, const ReplyPiece& piece) const {
  out += chunk_;
  append_index(out, piece.choice);
  out += kind_ == ApiKind::kChat ? R"(,"delta":{"content":)" : R"(,"text":)";
  append_json_string(out, piece.text);
  if (kind_ == ApiKind::kChat) out += '}';
  append_tail(out, piece);
  out += "]}\n\n";
}

void StreamReply::usage(std::string& out, const Usage& usage) const {
  out += common_;
  out += R"("choices":[],)";
  append_usage(out, usage);
  out += "}\n\n";
}

void StreamReply::error(std::string& out, const ApiError& error) {
  out += "data: ";
  out += to_json(error);
  out += "\n\n";
}

void StreamReply::done(std::string& out) { out += "data: [DONE]\n\n"; }

std::string whole_reply(const ReplyHead& head, const std::vector<ReplyPiece>& choices, const Usage& usage) {
  const bool chat = head.kind == ApiKind::kChat;
  std::string out = "{";
  append_head(out, head, chat ? "chat.completion" : "text_completion");
  out += R"(,"choices":[)";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"index":)";
    append_index(out, choices[i].choice);
    out += chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)";
    append_json_string(out, choices[i].text);
    if (chat) out += '}';
    append_tail(out, choices[i]);
  }
  out += "],";
  append_usage(out, usage);
  out += '}';
  return out;
}

}  // namespace lynx
