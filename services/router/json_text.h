// Writing JSON text straight into a buffer: what leaves once per token must not build a document first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lynx {

// The string with its quotes. Bytes that are no UTF-8 become U+FFFD, so the output is always valid JSON.
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::uint64_t value);
// JSON has no infinities: what is not finite becomes -9999, the value that other servers send for such a
// logprob.
void append_json_number(std::string& out, float value);

}  // namespace lynx
