#include "common/transport/ucx_devices.h"

#include <ucp/api/ucp.h>

#include <memory>

#include "common/core/log.h"
#include "common/transport/ucx_log.h"

namespace lynx {

bool ucx_moves_device_memory() {
  forward_ucx_log();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h raw = nullptr;
  if (const auto status = ucp_init(&params, nullptr, &raw); status != UCS_OK) {
    log::warn("UCX does not start: {}", ucs_status_string(status));
    return false;
  }
  const std::unique_ptr<ucp_context, void (*)(ucp_context_h)> context(raw, ucp_cleanup);
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (ucp_context_query(raw, &attributes) != UCS_OK) return false;
  return (attributes.memory_types & (1ULL << UCS_MEMORY_TYPE_CUDA)) != 0;
}

std::string ucx_version_name() { return ucp_get_version_string(); }

}  // namespace lynx
