#include "services/decode/decode_config.h"

#include "common/config/field_checks.h"

namespace lynx {

void DecodeConfig::describe(ConfigFields& f) {
  worker.describe(f);
  f.section("");
  f.field("max_batch", &max_batch, "sequences of one step");
  f.field("max_waiting", &max_waiting,
          "sequences beyond the batch that may hold blocks: on their way or waiting");
  f.field("lease_timeout", &lease_timeout,
          "how long a prompt's KV may take to arrive, its prefill's queue included");
  f.section("lynx");
  f.field("policy", &policy,
          "of expert routing: lynx, energy or off; to compare: share, oea, xshare, top_k_reduced");
  f.field("weights", &weights,
          "of the experts that a token gets: own, what each would weigh alone; kept, what takes another's "
          "place weighs nothing; or renormalised");
  f.field("window", &window, "lynx: W in nats; 0 = half of ln(experts / top-k)");
  f.field("bins", &bins, "lynx: beta; 0 = 1 + ceil(log2(experts / top-k))");
  f.field("share", &share, "share: c, an expert stays if some row gives it c/k of its own mass");
  f.field("keep", &keep, "oea, top_k_reduced: ranks of each row that stay");
  f.field("budget", &budget, "xshare: experts of a batch; 0 = half");
  f.field("energy", &energy, "energy: factor of the threshold; 1 = the rule");
  f.field("drift_every", &drift_every,
          "decode steps from one look at the exact model to the next, one row each; 0 = none");
  f.field("drift_limit", &drift_limit,
          "nats per token by which remapping may move the distribution before the policy is tightened");
}

void DecodeConfig::validate() const {
  worker.validate();
  check_field(max_batch > 0 && max_batch <= 4096, "max_batch", "must be from 1 to 4096");
  check_field(lease_timeout.count() > 0, "lease_timeout", "must be above 0");
  const auto kind = parse_policy_kind(policy);
  check_field(kind.ok() && !is_of_the_laboratory(*kind), "lynx.policy",
              "'" + policy + "' is not one of lynx, energy, off, share, oea, xshare, top_k_reduced");
  check_field(parse_weight_rule(weights).ok(), "lynx.weights",
              "'" + weights + "' is not one of own, kept, renormalised");
  check_field(window >= 0 && window <= 100, "lynx.window", "must be from 0 to 100");
  check_field(keep > 0, "lynx.keep", "must be above 0");
  // What the routing itself demands; of the shape, which is the model's and checked with it, any will do.
  const Status fits = check_policy({.experts = 1, .top_k = 1}, route_policy());
  if (!fits) throw ConfigError("lynx." + fits.error().message);
  check_field(drift_limit > 0 && drift_limit <= 100, "lynx.drift_limit", "must be above 0, up to 100");
}

RoutePolicy DecodeConfig::route_policy() const {
  RoutePolicy out;
  out.kind = *parse_policy_kind(policy);
  out.weights = *parse_weight_rule(weights);
  out.window = static_cast<float>(window);
  out.bins = bins;
  out.share = static_cast<float>(share);
  out.keep = keep;
  out.budget = budget;
  out.energy = static_cast<float>(energy);
  return out;
}

DriftLimits DecodeConfig::drift() const { return {drift_every, static_cast<float>(drift_limit)}; }

DecodeSettings DecodeConfig::settings() const {
  return {static_cast<std::uint32_t>(max_batch) + max_waiting, lease_timeout};
}

}  // namespace lynx
