// Any text as a chat template over a short chat: refused at load, or rendered within its limits to a text or
// an error.
#include <stdexcept>

#include "common/core/check.h"
#include "common/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto messages = nlohmann::json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " <think>永和</think> 🙂\n", "name": "ann", "n": -9223372036854775808},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]}])");
  const std::string source(reinterpret_cast<const char*>(data), size);
  try {
    const auto chat = lynx::ChatTemplate::parse(source, "fuzz");
    const auto text = chat.render(messages, true);
    LYNX_CHECK(text.ok() || !text.error().message.empty(), "an error without its reason");
  } catch (const std::runtime_error& error) {
    LYNX_CHECK(std::string_view(error.what()).starts_with("fuzz:"),
               "an error that does not name the template");
  }
  return 0;
}
