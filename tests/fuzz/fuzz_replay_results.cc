// A saved result that is read back to be compared, and a length table of a client pool: any bytes give a run
// (which can then be reported and compared with itself) or an error.
#include <cstdint>
#include <string>

#include "loadtest/replay/client_pool.h"
#include "loadtest/replay/comparison.h"
#include "loadtest/replay/html_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto table = lynx::parse_length_table(text); table && !table->empty())
    if (table->draw(0.5) == 0) __builtin_trap();
  auto run = lynx::parse_result(text, "fuzz");
  if (!run) return 0;
  static_cast<void>(lynx::result_json(*run, true));
  const auto comparison = lynx::compare(*run, *run, {.seed = 1, .resamples = 20});
  static_cast<void>(lynx::html_report({*run, *run}, comparison ? &*comparison : nullptr));
  return 0;
}
