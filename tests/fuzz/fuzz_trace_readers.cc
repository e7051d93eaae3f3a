// Any bytes as a trace file, the format told by the first byte: it is read, or refused with a reason. What
// was read is in order, and every request can be planned.
#include <array>

#include "common/core/check.h"
#include "loadtest/replay/trace_reader.h"
#include "loadtest/replay/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr std::array kFormats{"auto", "azure", "burstgpt", "mooncake", "qwen"};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto trace = lynx::read_trace_text(text, "fuzz", kFormats[data[0] % kFormats.size()]);
  if (!trace) return 0;
  LYNX_CHECK(trace->requests.front().at.count() == 0, "a trace starts at zero");
  const auto workload =
      lynx::plan_workload(*trace, {.spread_within_tick = true, .context = 64}, {{.name = "x", .share = 1}});
  LYNX_CHECK(workload.ok(), "a trace with a request gives a workload");
  LYNX_CHECK(workload->requests.size() == trace->requests.size(), "no request is lost");
  for (const auto& request : workload->requests)
    LYNX_CHECK(request.input_tokens >= 1 && request.output_tokens >= 1 &&
                   request.input_tokens + request.output_tokens <= 64 && request.at.count() >= 0,
               "a planned request fits");
  return 0;
}
