#include "services/router/policy.h"

namespace lynx {

RoutingPolicy find_routing_policy(std::string_view name) {
  if (name == "round_robin") return round_robin;
  if (name == "least_loaded") return least_loaded;
  if (name == "expert_affinity") return expert_affinity;
  return nullptr;
}

}  // namespace lynx
