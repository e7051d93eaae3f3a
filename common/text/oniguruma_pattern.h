// The reference matches patterns with Oniguruma (Ruby's syntax), we with PCRE2. Most of what they share means
// the same in both. What does not is either rewritten to mean the same, or refused: a pattern that cuts
// elsewhere changes token ids without a word.
#pragma once

#include <string>
#include <string_view>

namespace lynx {

// The same pattern for PCRE2 with UTF, UCP and MULTILINE. Throws std::runtime_error "offset N: what is
// wrong".
std::string pcre2_of_oniguruma(std::string_view pattern);

// A pattern in Oniguruma's syntax that matches text and nothing else.
std::string literal_pattern(std::string_view text);

}  // namespace lynx
