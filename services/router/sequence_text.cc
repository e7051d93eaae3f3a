#include "services/router/sequence_text.h"

namespace lynx {

SequenceText::SequenceText(const Tokenizer& tokenizer, const std::vector<std::string>& stops,
                           std::uint32_t min_tokens)
    : detokenizer_(tokenizer), matcher_(stops), matches_(!stops.empty()), min_tokens_(min_tokens) {}

SequenceText::Out SequenceText::push(const GeneratedToken& token) {
  std::string piece;
  if (token.finish != TokenFinish::kStop) piece = detokenizer_.push(token.id);
  const bool last = token.finish != TokenFinish::kNone;
  if (last) piece += detokenizer_.finish();
  if (!matches_ || token.index < min_tokens_) return {std::move(piece), false};
  auto out = matcher_.push(piece);
  if (last && !out.stopped) out.text += matcher_.finish();
  return {std::move(out.text), out.stopped};
}

}  // namespace lynx
