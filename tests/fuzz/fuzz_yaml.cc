// Any text as a configuration file: it is read, or refused with a ConfigError; what was read prints and reads
// back equal.
#include "common/core/check.h"
#include "tests/common/config/sample_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lynx::SampleConfig config;
  auto fields = config.fields();
  try {
    lynx::read_yaml_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", fields);
  } catch (const lynx::ConfigError&) {
    return 0;
  }
  lynx::SampleConfig again;
  auto fields_again = again.fields();
  lynx::read_yaml_text(lynx::print_yaml(fields), "printed.yaml", fields_again);
  LYNX_CHECK(again == config, "a printed configuration reads back differently");
  return 0;
}
