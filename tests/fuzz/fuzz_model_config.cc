// A config.json of any bytes: read or refused with an exception that says why.
#include <stdexcept>
#include <string>

#include "services/engine/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    (void)lynx::parse_model_config(text, "config.json", "", "");
  } catch (const std::runtime_error&) {
    return 0;
  }
  return 0;
}
