#include "common/text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "common/text/oniguruma_pattern.h"

namespace lynx {
namespace {

constexpr std::uint32_t kMatchLimit = 1'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 << 10;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct SplitRegex::Impl {
  // Where the next match lies, in ovector order; nothing when there is none or it costs too much.
  std::optional<std::pair<std::size_t, std::size_t>> find(std::string_view text, std::size_t from,
                                                          pcre2_match_data* data) const {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data, context.get());
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);  // that one uses the heap
    if (found < 0) return std::nullopt;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    return std::pair(range[0], range[1]);
  }

  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

SplitRegex::SplitRegex(const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  const std::string ours = pcre2_of_oniguruma(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  impl_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(ours.data()), ours.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr));
  if (!impl_->code)
    throw std::runtime_error(error_text(error) + " at offset " + std::to_string(offset) + " of " + ours);
  pcre2_jit_compile(impl_->code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower, not wrong
  impl_->context.reset(pcre2_match_context_create(nullptr));
  if (!impl_->context) throw std::bad_alloc();
  pcre2_set_match_limit(impl_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(impl_->context.get(), kHeapLimitKib);
}

SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

void SplitRegex::split(std::string_view text,
                       const std::function<void(std::string_view, bool)>& piece) const {
  const std::unique_ptr<pcre2_match_data, FreeData> data(pcre2_match_data_create(1, nullptr));
  if (!data) throw std::bad_alloc();
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    const auto match = impl_->find(text, from, data.get());
    if (!match) break;
    const auto [begin, end] = *match;
    if (begin > done) piece(text.substr(done, begin - done), false);
    if (end > begin) piece(text.substr(begin, end - begin), true);
    done = from = end;
    if (end == begin) {  // an empty match cuts, and the next one begins a character later
      do ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
    }
  }
  if (done < text.size()) piece(text.substr(done), false);
}

}  // namespace lynx
