// Cuts a Jinja template into text and tokens, white-space control applied the way chat templates expect it
// (trim_blocks and lstrip_blocks on, one newline at the end dropped). Throws TemplateError.
#pragma once

#include <string>
#include <vector>

namespace lynx::jinja {

struct Token {
  enum class Kind { kText, kOutputBegin, kBlockBegin, kEnd, kName, kString, kInteger, kFloat, kSymbol, kEof };
  Kind kind = Kind::kEof;
  std::string text;  // of kText and kString: the content; of kSymbol: the operator
  int line = 0;
};

std::vector<Token> tokenize(const std::string& source);

}  // namespace lynx::jinja
