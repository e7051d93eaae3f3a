#include "common/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <stdexcept>

namespace lynx {

void init_logging(const std::string& service, const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off && level != "off")
    throw std::runtime_error("log_level: '" + level +
                             "' is not one of trace, debug, info, warning, error, off");
  auto logger =
      std::make_shared<spdlog::logger>(service, std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ [%n] %v");
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace lynx
