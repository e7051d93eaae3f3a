// Which experts a decode batch reads: the data types of expert routing and of remapping policies.
// Source of `lynx`: LYNX, arXiv 2411.08982, section 4; the numbers the paper leaves out were chosen on a
// trained router.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"

namespace lynx {

enum class RouterKind : std::uint8_t {
  kSoftmax,  // probabilities = softmax(logits); confidence measured on logits
  kSigmoid,  // probabilities = sigmoid(scores); confidence measured on the scores before the sigmoid
};

struct RouterShape {
  std::uint32_t experts = 0;   // N
  std::uint32_t top_k = 0;     // k
  bool norm_topk_prob = true;  // exact weights sum to 1; otherwise to the top-k's probability
  RouterKind kind = RouterKind::kSoftmax;
};

enum class PolicyKind : std::uint8_t {
  kOff,
  kLynx,
  kShare,
  kOea,
  kXshare,
  kTopKReduced,
  kEnergy,
  kSweep,
  kDenyRank,
};
std::string_view to_string(PolicyKind kind);
Result<PolicyKind> parse_policy_kind(std::string_view text);
// Policies that exist in the reference alone: a server refuses them.
constexpr bool is_of_the_laboratory(PolicyKind kind) {
  return kind == PolicyKind::kSweep || kind == PolicyKind::kDenyRank;
}

// What the experts that a row gets weigh. What an expert *would weigh alone* is its probability over the sum
// of the row's exact top-k (times that sum, without norm_topk_prob): what it weighs in the exact model, if it
// is of the top-k. An exact row has the exact model's weights under every rule.
enum class WeightRule : std::uint8_t {
  kOwn,           // what each would weigh alone
  kKept,          // the same, and what takes the place of another weighs nothing
  kRenormalised,  // in the proportions of their probabilities, to the same sum as the exact top-k's
};
std::string_view to_string(WeightRule rule);
Result<WeightRule> parse_weight_rule(std::string_view text);

// The settings of a policy. The defaults are those of the design; 0 means "derive from k and N".
struct RoutePolicy {
  PolicyKind kind = PolicyKind::kOff;
  WeightRule weights = WeightRule::kOwn;
  float window = 0;        // lynx: W in nats; 0 = 0.5 ln(N/k)
  std::uint32_t bins = 0;  // lynx: beta; 0 = 1 + ceil(log2(N/k))
  float share = 0.8F;  // share: c, an expert stays if some row gives it at least c/k of its own top-k mass
  std::uint32_t keep = 4;    // oea: top ranks of each row that stay; top_k_reduced: k of each row;
                             // deny_rank: the rank that every row loses, 1 = its first
  std::uint32_t budget = 0;  // xshare: experts of the batch besides each row's top-1; 0 = N/2
  float energy = 1;          // energy: factor of the threshold; 1 = the rule
  float part = 0.8F;         // sweep: what every row keeps of its own top-k mass

  bool operator==(const RoutePolicy&) const = default;
};

// Start-up check of settings that come from outside; the error names the field. route_reference asserts it.
constexpr std::uint32_t kMaxExperts = 1024;
constexpr std::uint32_t kMaxBins = 32;
constexpr float kMaxShare = 8;
constexpr float kMaxEnergy = 64;
Status check_policy(const RouterShape& shape, const RoutePolicy& policy);

// Per row flags.
struct RowMask {
  std::span<const std::uint8_t> live;  // [B] 0 = padding: neither votes nor routes
  std::span<const std::uint8_t>
      exact;  // [B] or empty; 1 = keeps its full top-k (lynx.exact) and its experts are active
};

struct PlanStats {
  std::uint32_t routed_experts = 0;     // distinct experts of the exact top-k sets
  std::uint32_t activated_experts = 0;  // distinct experts of the plan: what is read from memory
  std::uint32_t assignments = 0;        // live rows x k
  std::uint32_t remapped = 0;           // assignments whose expert is not in the row's exact top-k
  double retained_mass_sum =
      0;  // over live rows: exact top-k probability kept by the plan / exact top-k probability
  double retained_mass_min = 1;  // worst row
};

// The outcome for one layer and one batch. Rows that are padding have expert ids kNoExpert and weight 0.
struct ExpertPlan {
  static constexpr std::uint32_t kNoExpert = 0xFFFFFFFF;

  std::uint32_t rows = 0;              // B, padding included
  std::uint32_t top_k = 0;             // slots per row; top_k_reduced leaves trailing slots kNoExpert
  std::vector<std::uint32_t> experts;  // [B, k] by falling original logit
  std::vector<float> weights;          // [B, k]
  // What each row kept of its exact top-k; padding and rows with a NaN: all of it.
  std::vector<std::uint32_t> row_kept;      // [B] experts
  std::vector<std::uint32_t> row_mass_q24;  // [B] probability, in units of 2^-24
  // The transposed form that an expert kernel reads: for active expert i, rows are
  // row_of[offsets[i] .. offsets[i+1]) and slot_of names the slot within the row.
  std::vector<std::uint32_t> active;   // [A] ascending
  std::vector<std::uint32_t> offsets;  // [A+1]
  std::vector<std::uint32_t> row_of;   // [sum]
  std::vector<std::uint32_t> slot_of;  // [sum]
  PlanStats stats;
};

}  // namespace lynx
