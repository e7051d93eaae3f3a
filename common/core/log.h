// Logging for every process: one line per event on stderr, `time level [service] message`.
// Call init_logging once in main; then log::info("...", args) from any thread (fmt syntax).
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace lynx {

// level: trace, debug, info, warn, error. Throws std::runtime_error on another word.
void init_logging(const std::string& service, const std::string& level);

namespace log = spdlog;

}  // namespace lynx
