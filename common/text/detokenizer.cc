#include "common/text/detokenizer.h"

#include "common/text/utf8.h"

namespace lynx {

std::string take_valid_utf8(std::string& bytes) {
  std::string out;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Step::Kind::kUnfinished) break;
    out += step.kind == Utf8Step::Kind::kValid ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return out;
}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  held_ += tokenizer_->bytes(id);
  return take_valid_utf8(held_);
}

std::string Detokenizer::finish() {
  std::string out = repair_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace lynx
