#include "common/text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdexcept>

namespace lynx {
namespace {

constexpr std::uint32_t kMatchLimit = 1'000'000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// Oniguruma, which the reference uses, takes \s as Unicode's White_Space; PCRE2's \s has U+180E besides. So
// \s and \S are spelt out. Inside a class \S has no such spelling and keeps PCRE2's meaning.
std::string spell_out_spaces(const std::string& pattern) {
  static const std::string kSpaces = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's')
        out += in_class ? kSpaces : "[" + kSpaces + "]";
      else if (escaped == 'S' && !in_class)
        out += "[^" + kSpaces + "]";
      else
        out += {c, escaped};
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct SplitRegex::Impl {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

SplitRegex::SplitRegex(const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  const std::string spelt = spell_out_spaces(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(),
                                  PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!impl_->code) throw std::runtime_error("offset " + std::to_string(offset) + ": " + error_text(error));
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower, not wrong
  impl_->context.reset(pcre2_match_context_create(nullptr));
  if (!impl_->context) throw std::bad_alloc();
  pcre2_set_match_limit(impl_->context.get(), kMatchLimit);
}

SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

void SplitRegex::split(std::string_view text,
                       const std::function<void(std::string_view, bool)>& piece) const {
  const std::unique_ptr<pcre2_match_data, FreeData> data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    const int found = pcre2_match(impl_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                  data.get(), impl_->context.get());
    if (found < 0) break;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    const std::size_t begin = range[0], end = range[1];
    if (end <= begin) {  // an empty match (\K can even turn it around): step over one character
      do ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
      continue;
    }
    if (begin > done) piece(text.substr(done, begin - done), false);
    piece(text.substr(begin, end - begin), true);
    done = from = end;
  }
  if (done < text.size()) piece(text.substr(done), false);
}

}  // namespace lynx
