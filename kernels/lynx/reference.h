// The reference of routing and of every policy: plain, readable, one row of the paper at a time. The CUDA
// kernels must produce bit-identical plans. Pure functions; thread-safe. No allocation once a thread has seen
// its largest batch and `plan` has held one.
//
// What makes a plan reproducible, bit for bit, in any row order and on any device:
//  - Experts are ranked by (falling logit, rising index); nothing else decides a row's top-k or its refill.
//  - The lynx decision uses integers only, save one bin per vote: floor(alpha * (max - z)) in f32, alpha from
//  derive().
//  - Probabilities (the fill, share, xshare, weights, retained mass) are Q31 integers, see fixed_point.h;
//  sums over rows
//    or experts are integer sums. A weight is mass / sum of the masses of the exact top-k (of the chosen
//    ones, under WeightRule::kRenormalised), both converted to f32, divided in f32; without norm_topk_prob
//    that is multiplied by (top-k sum / sum of all), again f32.
#pragma once

#include <span>

#include "kernels/lynx/policy.h"

namespace lynx {

// logits [B, N] row-major, f32. Ties are broken by the smaller expert index everywhere. Reuses plan's memory.
// Preconditions (checked): check_policy(shape, policy), B = rows.live.size().
// The batch that votes is the live rows without a NaN: B of the vote digits is their number. A row with a NaN
// routes to experts 0..k-1 with equal weights and votes for nothing, so it cannot poison the others.
// Infinities are ordinary values. rows.exact: the row votes like any other, and its full top-k is active
// whatever the policy says. plan.stats.activated_experts counts the experts that some row uses, NaN rows
// included.
void route_reference(ExpertPlan& plan, std::span<const float> logits, const RouterShape& shape,
                     const RoutePolicy& policy, const RowMask& rows);

}  // namespace lynx
