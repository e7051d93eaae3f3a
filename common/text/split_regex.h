// A pre-tokenizer's pattern over PCRE2, with Unicode classes. The pattern comes from a file, so matching has
// a limit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace lynx {

class SplitRegex {
 public:
  // Throws std::runtime_error "offset N: what PCRE2 says".
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
