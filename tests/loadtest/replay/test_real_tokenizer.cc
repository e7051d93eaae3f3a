// Prompts counted by the tokenizer of the shipped model.
#include <gtest/gtest.h>

#include "common/text/tokenizer.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/prompt_writer.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

TEST(RealTokenizer, PromptsHaveExactlyTheAskedTokens) {
  const std::string file = source_path("deploy/model/tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::from_file(file);
  const auto count = [&](std::string_view text) { return tokenizer.encode(text, false).size(); };
  const PromptWriter writer(default_passages(), count);
  for (std::uint32_t tokens = 1; tokens < 2048; tokens += 29) {
    PlannedRequest request;
    request.input_tokens = tokens;
    request.seed = tokens;
    EXPECT_EQ(count(writer.write(request, 0)), tokens);
    request.hash_ids = {1, 2, tokens};
    EXPECT_EQ(count(writer.write(request, 128)), tokens);
  }
}

}  // namespace
}  // namespace lynx
