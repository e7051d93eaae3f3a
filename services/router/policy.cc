#include "services/router/policy.h"

namespace lynx {

RoutingPolicy find_routing_policy(std::string_view name) {
  if (name == "round_robin") return round_robin;
  if (name == "least_loaded") return least_loaded;
  return nullptr;
}

}  // namespace lynx
