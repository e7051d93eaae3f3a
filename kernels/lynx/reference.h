// The reference of routing and of every policy: plain, readable, one row of the paper at a time. The CUDA kernels must
// produce bit-identical plans. Pure functions; thread-safe.
#pragma once

#include <span>

#include "kernels/lynx/policy.h"

namespace lynx {

// logits [B, N] row-major, f32. Ties are broken by the smaller expert index everywhere. Reuses plan's memory.
// Preconditions (checked): 1 <= k <= N, B = rows.live.size(), all logits of live rows finite or handled: a row with a NaN
// routes to experts 0..k-1 with equal weights and votes for nothing, so it cannot poison the others.
void route_reference(ExpertPlan& plan, std::span<const float> logits, const RouterShape& shape,
                     const RoutePolicy& policy, const RowMask& rows);

}  // namespace lynx
