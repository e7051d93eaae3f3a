#include "tests/e2e/request_mix.h"
#include "tests/support/paths.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace lynx::testing {
namespace {

std::vector<TokenId> text_tokens(const Tokenizer& tokenizer) {
  std::ifstream in(source_path("tests/golden/tokenizer/lines.txt"), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  auto tokens = tokenizer.encode(text, false);
  if (tokens.size() < 4096) throw std::runtime_error("too little text for prompts");
  return tokens;
}

}  // namespace

std::vector<MixedRequest> mixed_requests(const Tokenizer& tokenizer, std::size_t count,
                                         std::uint32_t max_prompt, std::uint32_t max_new,
                                         std::uint64_t seed) {
  const std::vector<TokenId> text = text_tokens(tokenizer);
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<MixedRequest> requests(count);
  for (MixedRequest& request : requests) {
    const auto length = static_cast<std::size_t>(std::ceil(std::exp(uniform() * std::log(max_prompt))));
    const std::size_t start = static_cast<std::size_t>(uniform() * static_cast<double>(text.size() - length));
    request.prompt.assign(text.begin() + static_cast<std::ptrdiff_t>(start),
                          text.begin() + static_cast<std::ptrdiff_t>(start + length));
    request.max_tokens = 1 + static_cast<std::uint32_t>(uniform() * max_new);
  }
  return requests;
}

}  // namespace lynx::testing
