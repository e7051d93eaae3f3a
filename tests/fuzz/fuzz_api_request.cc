// Any body on the two endpoints that read one: a typed request whose fields are in range, or a 400 that names
// a field.
#include "common/core/check.h"
#include "services/router/openai_api.h"

namespace {

void parse(lynx::ApiKind kind, std::string_view body) {
  lynx::ApiLimits limits;
  limits.vocab = 300;
  lynx::ApiRequest request;
  if (const auto error = lynx::parse_api_request(kind, body, limits, request)) {
    LYNX_CHECK(error->status == 400 && !error->message.empty(), "an error without its reason");
    return;
  }
  const auto& sampling = request.sampling;
  LYNX_CHECK(sampling.temperature >= 0 && sampling.temperature <= 2, "temperature out of range");
  LYNX_CHECK(sampling.top_p > 0 && sampling.top_p <= 1, "top_p out of range");
  LYNX_CHECK(request.n >= 1 && request.n <= limits.max_choices, "n out of range");
  for (const auto& [token, bias] : sampling.logit_bias)
    LYNX_CHECK(token < limits.vocab, "a biased token is unknown");
  const bool chat = kind == lynx::ApiKind::kChat;
  LYNX_CHECK(chat ? !request.messages.empty() : !request.prompts.empty(), "a request without a prompt");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  parse(lynx::ApiKind::kCompletion, body);
  parse(lynx::ApiKind::kChat, body);
  return 0;
}
