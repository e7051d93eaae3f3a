// The plan that the device made of a batch against route_reference's, bit for bit.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/kernels/cuda/routed_batch.h"

namespace lynx::cuda {

// All but those that only the laboratory knows.
inline const std::vector<PolicyKind> kDevicePolicies{
    PolicyKind::kOff, PolicyKind::kLynx,   PolicyKind::kShare,      PolicyKind::kEnergy,
    PolicyKind::kOea, PolicyKind::kXshare, PolicyKind::kTopKReduced};

inline std::string describe(const RoutingCase& c) {
  return std::string(to_string(c.policy.kind)) + " N=" + std::to_string(c.shape.experts) +
         " k=" + std::to_string(c.shape.top_k) + " B=" + std::to_string(c.rows()) + " " +
         std::string(to_string(c.policy.weights)) + (c.shape.norm_topk_prob ? " norm" : "") +
         (c.shape.kind == RouterKind::kSigmoid ? " sigmoid" : "");
}

inline void expect_same(const RoutingCase& c, const RoutedBatch& batch) {
  SCOPED_TRACE(describe(c));
  const ExpertPlan want = c.plan();
  const ExpertPlan got = batch.plan();
  ASSERT_EQ(got.experts, want.experts);
  ASSERT_EQ(got.weights, want.weights);
  ASSERT_EQ(got.active, want.active);
  ASSERT_EQ(got.offsets, want.offsets);
  ASSERT_EQ(got.row_of, want.row_of);
  ASSERT_EQ(got.slot_of, want.slot_of);
  expect_same_stats(got.stats, want.stats);
  const auto pair_weights = batch.pair_weights(want.row_of.size());
  for (std::size_t i = 0; i < want.row_of.size(); ++i)
    ASSERT_EQ(pair_weights[i], want.weights[want.row_of[i] * want.top_k + want.slot_of[i]]);
}

// What decode plans say of each row.
inline void expect_same_rows(const RoutingCase& c, const RoutedBatch& batch) {
  SCOPED_TRACE(describe(c));
  const ExpertPlan want = c.plan();
  const auto rows = batch.row_stats(want.rows);
  for (std::uint32_t r = 0; r < want.rows; ++r) {
    if (c.live[r] == 0) continue;
    const auto slots = std::span(want.experts).subspan(std::size_t{r} * want.top_k, want.top_k);
    const auto empty = static_cast<std::uint32_t>(std::ranges::count(slots, ExpertPlan::kNoExpert));
    ASSERT_EQ(rows[r].remapped, want.top_k - empty - want.row_kept[r]) << "row " << r;
    ASSERT_EQ(rows[r].retained_q24, want.row_mass_q24[r]) << "row " << r;
  }
}

}  // namespace lynx::cuda
