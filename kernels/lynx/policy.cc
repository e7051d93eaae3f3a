#include "kernels/lynx/policy.h"

#include <array>

namespace lynx {
namespace {

constexpr std::array kAllKinds{PolicyKind::kOff,    PolicyKind::kLynx,   PolicyKind::kShare,
                               PolicyKind::kOea,    PolicyKind::kXshare, PolicyKind::kTopKReduced,
                               PolicyKind::kEnergy, PolicyKind::kSweep,  PolicyKind::kDenyRank};

constexpr std::array kAllRules{WeightRule::kOwn, WeightRule::kKept, WeightRule::kRenormalised};

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

std::string_view to_string(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kOff:
      return "off";
    case PolicyKind::kLynx:
      return "lynx";
    case PolicyKind::kShare:
      return "share";
    case PolicyKind::kOea:
      return "oea";
    case PolicyKind::kXshare:
      return "xshare";
    case PolicyKind::kTopKReduced:
      return "top_k_reduced";
    case PolicyKind::kEnergy:
      return "energy";
    case PolicyKind::kSweep:
      return "sweep";
    case PolicyKind::kDenyRank:
      return "deny_rank";
  }
  return "unknown";
}

Result<PolicyKind> parse_policy_kind(std::string_view text) {
  for (const PolicyKind kind : kAllKinds)
    if (text == to_string(kind)) return kind;
  return invalid("policy '" + std::string(text) +
                 "' is not one of off, lynx, share, oea, xshare, top_k_reduced, energy, sweep, deny_rank");
}

std::string_view to_string(WeightRule rule) {
  switch (rule) {
    case WeightRule::kOwn:
      return "own";
    case WeightRule::kKept:
      return "kept";
    case WeightRule::kRenormalised:
      return "renormalised";
  }
  return "unknown";
}

Result<WeightRule> parse_weight_rule(std::string_view text) {
  for (const WeightRule rule : kAllRules)
    if (text == to_string(rule)) return rule;
  return invalid("weights '" + std::string(text) + "' is not one of own, kept, renormalised");
}

Status check_policy(const RouterShape& shape, const RoutePolicy& policy) {
  if (shape.experts == 0 || shape.experts > kMaxExperts)
    return invalid("experts: expected 1 to " + std::to_string(kMaxExperts) + ", got " +
                   std::to_string(shape.experts));
  if (shape.top_k == 0 || shape.top_k > shape.experts)
    return invalid("top_k: expected 1 to the number of experts, got " + std::to_string(shape.top_k));
  if (!(policy.window >= 0)) return invalid("window: expected a number of nats, 0 or more");
  if (policy.bins > kMaxBins)
    return invalid("bins: expected at most " + std::to_string(kMaxBins) + ", got " +
                   std::to_string(policy.bins));
  if (!(policy.share >= 0 && policy.share <= kMaxShare))
    return invalid("share: expected a number from 0 to 8");
  if (!(policy.energy > 0 && policy.energy <= kMaxEnergy))
    return invalid("energy: expected a number above 0, up to 64");
  if (!(policy.part >= 0 && policy.part <= 1)) return invalid("part: expected a number from 0 to 1");
  return {};
}

}  // namespace lynx
