// The numbers that a routing kernel works with, derived once per model on the host from a RoutePolicy.
#pragma once

#include <cstdint>

#include "kernels/lynx/policy.h"

namespace lynx {

struct DerivedPolicy {
  WeightRule weights = WeightRule::kOwn;
  std::uint32_t bins = 1;        // lynx: beta
  float alpha = 0;               // lynx: bins per nat, (beta - 1) / W
  std::uint32_t share_q16 = 0;   // share: c in units of 2^-16
  std::uint32_t keep = 0;        // oea, top_k_reduced, deny_rank: within 1..k
  std::uint32_t budget = 0;      // xshare: within 1..N
  std::uint32_t energy_q16 = 0;  // energy: at least 1
  std::uint32_t part_q16 = 0;    // sweep
};

DerivedPolicy derive(const RouterShape& shape, const RoutePolicy& policy);

}  // namespace lynx
