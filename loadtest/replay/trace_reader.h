// Reads a trace file of any known format. Rows that are no request are counted and kept with line and reason.
#pragma once

#include <string>
#include <string_view>

#include "common/core/result.h"
#include "loadtest/replay/trace.h"

namespace lynx {

// format: azure, burstgpt, mooncake, qwen, or auto (told from the first line). Errors: an unknown format, a
// header without the columns, not one good row.
Result<Trace> read_trace_text(std::string_view text, const std::string& name, const std::string& format);
Result<Trace> read_trace_file(const std::string& path, const std::string& format);

}  // namespace lynx
