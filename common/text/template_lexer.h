// Cuts a Jinja template into text and tokens, white-space control applied the way chat templates expect it
// (trim_blocks and lstrip_blocks on). Throws TemplateError.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace lynx::jinja {

class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& what) : std::runtime_error(std::to_string(line) + ": " + what) {}
};

struct Token {
  enum class Kind { kText, kOutputBegin, kBlockBegin, kEnd, kName, kString, kInteger, kFloat, kSymbol, kEof };
  Kind kind = Kind::kEof;
  std::string text;  // of kText and kString: the content; of kSymbol: the operator
  int line = 0;
};

std::vector<Token> tokenize(const std::string& source);

}  // namespace lynx::jinja
