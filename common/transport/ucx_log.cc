#include "common/transport/ucx_log.h"

#include <ucs/config/types.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "common/core/log.h"

namespace lynx {

namespace {

// A peer that died is an ERROR to UCX and everyday life to us, hence one level less.
log::level::level_enum level_of(ucs_log_level_t level) {
  if (level == UCS_LOG_LEVEL_FATAL) return log::level::critical;
  if (level <= UCS_LOG_LEVEL_WARN) return log::level::warn;
  return log::level::debug;
}

ucs_log_func_rc_t forward(const char*, unsigned, const char*, ucs_log_level_t level,
                          const ucs_log_component_config_t*, const char* format, va_list args) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, args);
  log::log(level_of(level), "UCX: {}", text);
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void forward_ucx_log() {
  static std::once_flag once;
  std::call_once(once, [] { ucs_log_push_handler(forward); });
}

}  // namespace lynx
