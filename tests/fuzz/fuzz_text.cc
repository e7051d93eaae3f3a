// Any bytes as a prompt and as a stream: decoding gives the (repaired) text back, and neither the cuts
// between tokens nor those between pieces change what a client reads.
#include "common/core/check.h"
#include "common/text/detokenizer.h"
#include "common/text/stop_matcher.h"
#include "common/text/utf8.h"
#include "tests/common/text/sample_tokenizer.h"

namespace {

void check_round_trip(const lynx::Tokenizer& tokenizer, std::string_view bytes) {
  const auto ids = tokenizer.encode(bytes);
  const std::string text = lynx::repair_utf8(bytes);
  LYNX_CHECK(tokenizer.decode(ids, false) == text, "decoding does not give the text back");
  const auto plain = tokenizer.encode(bytes, false);
  for (const lynx::TokenId id : plain)
    LYNX_CHECK(!tokenizer.is_special(id), "plain text forged a special token");
  LYNX_CHECK(tokenizer.decode(plain) == text, "decoding plain tokens does not give the text back");
}

// Every byte is a token, so that the pieces are cut anywhere.
std::string stream(const lynx::Tokenizer& tokenizer, std::string_view bytes, lynx::StopMatcher matcher) {
  lynx::Detokenizer detokenizer(tokenizer);
  std::string out;
  for (const char byte : bytes) {
    const auto step = matcher.push(detokenizer.push(static_cast<std::uint8_t>(byte)));
    LYNX_CHECK(lynx::is_valid_utf8(step.text), "a piece ends inside a character");
    out += step.text;
    if (step.stopped) return out;
  }
  const auto last = matcher.push(detokenizer.finish());
  return out + last.text + (last.stopped ? "" : matcher.finish());
}

std::string at_once(std::string_view bytes, lynx::StopMatcher matcher) {
  const auto all = matcher.push(lynx::repair_utf8(bytes));
  return all.text + (all.stopped ? "" : matcher.finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lynx::Tokenizer tokenizer =
      lynx::Tokenizer::from_json(lynx::testing::sample_tokenizer(), "sample");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_round_trip(tokenizer, bytes);
  // The first two bytes say how long two stop strings are; those follow, then the text.
  if (size < 2) return 0;
  const std::size_t first = std::min<std::size_t>(data[0] % 8U, size - 2);
  const std::size_t second = std::min<std::size_t>(data[1] % 8U, size - 2 - first);
  const std::vector<std::string> stops = {lynx::repair_utf8(bytes.substr(2, first)),
                                          lynx::repair_utf8(bytes.substr(2 + first, second))};
  const std::string_view text = bytes.substr(2 + first + second);
  LYNX_CHECK(stream(tokenizer, text, lynx::StopMatcher(stops)) == at_once(text, lynx::StopMatcher(stops)),
             "the cuts between tokens change the text");
  return 0;
}
