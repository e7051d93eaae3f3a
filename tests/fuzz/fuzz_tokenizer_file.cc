// Any text as a tokenizer.json: refused with the file's name in front, or a tokenizer that encodes and
// decodes whatever it is given.
#include <stdexcept>

#include "common/core/check.h"
#include "common/text/tokenizer.h"

namespace {

constexpr const char* kName = "fuzz.json";
constexpr std::string_view kTexts[] = {"", "don't  stop\r\n\t 12345", "永和九年 🙂<m>",
                                       "\xF0\x9F\xFF e\u0301 \u3000"};

void use(const lynx::Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    const auto ids = tokenizer.encode(text);
    for (const lynx::TokenId id : ids)
      LYNX_CHECK(id < tokenizer.vocab_size(), "an id outside the vocabulary");
    tokenizer.decode(ids, false);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    use(lynx::Tokenizer::from_json(text, kName));
  } catch (const std::runtime_error& error) {
    LYNX_CHECK(std::string_view(error.what()).starts_with(kName), "an error that does not name the file");
  }
  return 0;
}
