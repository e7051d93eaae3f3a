// The policies on logits of a trained router: sound plans, and how many experts they read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/kernels/lynx/recordings.h"
#include "tests/kernels/lynx/routing_case.h"

namespace lynx {
namespace {

struct Union {
  double routed = 0, activated = 0, retained = 0;
};

// Means over layers, positions (every `step`-th) and groups of `batch` sequences. Neighbours in a recording
// are pieces of one document, so a group takes sequences that lie far apart.
Union mean_union(const RecordedLogits& recorded, const RoutePolicy& policy, std::uint32_t batch,
                 std::size_t step) {
  Union sum;
  const std::size_t groups = recorded.sequences / batch;
  std::size_t plans = 0;
  for (std::size_t layer = 0; layer < recorded.layers; ++layer)
    for (std::size_t position = 0; position < recorded.positions; position += step)
      for (std::size_t group = 0; group < groups; ++group) {
        RoutingCase c{.policy = policy, .logits = {}, .live = {}, .exact = {}};
        for (std::size_t i = 0; i < batch; ++i) c.add_row(recorded.row(layer, group + i * groups, position));
        const auto stats = c.plan().stats;
        sum.routed += stats.routed_experts;
        sum.activated += stats.activated_experts;
        sum.retained += stats.retained_mass_sum / batch;
        ++plans;
      }
  const auto n = static_cast<double>(plans);
  return {sum.routed / n, sum.activated / n, sum.retained / n};
}

TEST(RecordedLogits, EveryPolicyGivesSoundPlans) {
  const auto recorded = sample_logits();
  for (const PolicyKind kind : kEveryPolicy)
    for (const bool norm : {true, false})
      for (std::size_t layer = 0; layer < recorded.layers; ++layer) {
        RoutingCase c{.shape = {.experts = 64, .top_k = 8, .norm_topk_prob = norm},
                      .policy = {.kind = kind},
                      .logits = {},
                      .live = {},
                      .exact = {}};
        for (std::size_t i = 0; i < 16; ++i) c.add_row(recorded.row(layer, i, 0));
        const auto plan = c.plan();
        for (std::uint32_t r = 0; r < 16; ++r)
          expect_row_is_sound(c, plan, r, kind == PolicyKind::kTopKReduced ? c.policy.keep : 8);
        expect_transpose_agrees(plan);
      }
}

TEST(RecordedLogits, LynxReadsFewerExpertsAndMoreWithAWiderWindow) {
  const auto recorded = sample_logits();
  const RoutePolicy lynx{.kind = PolicyKind::kLynx};
  const auto b16 = mean_union(recorded, lynx, 16, 1);
  EXPECT_LT(b16.activated, 0.75 * b16.routed);
  EXPECT_GT(b16.retained, 0.8);
  double before = 0;
  for (const float window : {0.35F, 0.71F, 1.04F, 1.5F, 3.0F}) {
    const auto now = mean_union(recorded, {.kind = PolicyKind::kLynx, .window = window}, 16, 1).activated;
    EXPECT_GE(now, before);
    before = now;
  }
}

// U as it was measured when the model was evaluated with these policies: on other text and more of it, hence
// the tolerance.
TEST(RecordedLogits, TheSampleReproducesTheMeasuredUnions) {
  const auto recorded = sample_logits();
  struct Row {
    const char* name;
    RoutePolicy policy;
    std::uint32_t batch;
    double exact, activated;
  };
  const std::vector<Row> measured{
      {"lynx W=1.04", {.kind = PolicyKind::kLynx}, 4, 24.9, 13.6},
      {"lynx W=1.04", {.kind = PolicyKind::kLynx}, 16, 50.7, 34.7},
      {"lynx W=1.04", {.kind = PolicyKind::kLynx}, 64, 62.6, 56.1},
      {"lynx W=0.71", {.kind = PolicyKind::kLynx, .window = 0.71F}, 16, 50.7, 27.4},
      {"share c=0.80", {.kind = PolicyKind::kShare}, 16, 50.7, 33.2},
      {"oea k0=3", {.kind = PolicyKind::kOea, .keep = 3}, 16, 50.7, 29.6},
      {"oea k0=4", {.kind = PolicyKind::kOea, .keep = 4}, 16, 50.7, 35.5},
      {"xshare 32", {.kind = PolicyKind::kXshare, .budget = 32}, 16, 50.7, 32.3},
  };
  std::printf("%-14s %4s %16s %20s %14s\n", "policy", "B", "U exact (then)", "U activated (then)",
              "mass retained");
  for (const Row& row : measured) {
    const auto u = mean_union(recorded, row.policy, row.batch, 1);
    std::printf("%-14s %4u %8.1f (%4.1f) %12.1f (%4.1f) %14.3f\n", row.name, row.batch, u.routed, row.exact,
                u.activated, row.activated, u.retained);
    EXPECT_NEAR(u.routed, row.exact, 0.05 * row.exact) << row.name;
    EXPECT_NEAR(u.activated, row.activated, 0.05 * row.activated) << row.name;
  }
}

}  // namespace
}  // namespace lynx
