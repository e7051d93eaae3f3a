#include "services/router/sequence_text.h"

#include <algorithm>
#include <utility>

namespace lynx {

SequenceText::SequenceText(const Tokenizer& tokenizer, Rules rules)
    : detokenizer_(tokenizer, rules.skip_special),
      matcher_(rules.stops, rules.keep_stop),
      rules_(std::move(rules)) {}

SequenceText::Out SequenceText::push(const GeneratedToken& token) {
  const auto& stops = rules_.stop_tokens;
  const bool may_stop = token.index >= rules_.min_tokens;
  const bool stop_token = may_stop && std::find(stops.begin(), stops.end(), token.id) != stops.end();
  const bool shown = rules_.keep_stop || (!stop_token && token.finish != TokenFinish::kStop);
  std::string piece;
  if (shown) piece = detokenizer_.push(token.id);
  const bool last = stop_token || token.finish != TokenFinish::kNone;
  if (last) piece += detokenizer_.finish();
  if (rules_.stops.empty() || !may_stop) return {std::move(piece), stop_token};
  auto out = matcher_.push(piece);
  if (last && !out.stopped) out.text += matcher_.finish();
  return {std::move(out.text), out.stopped || stop_token};
}

}  // namespace lynx
