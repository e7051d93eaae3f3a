// A pre-tokenizer's pattern over PCRE2, with Unicode classes. The pattern comes from a file, so the work and
// the memory of a match are limited. Immutable after construction; any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lynx {

class SplitRegex {
 public:
  // pattern: in Oniguruma's syntax, as tokenizer.json has it. Throws std::runtime_error.
  explicit SplitRegex(const std::string& pattern);
  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  // Calls piece(text, matched) for matches and for what lies between, in order; none is empty. text is valid
  // UTF-8. When a match costs more than the limit, the rest comes as one unmatched piece.
  void split(std::string_view text, const std::function<void(std::string_view, bool matched)>& piece) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx
