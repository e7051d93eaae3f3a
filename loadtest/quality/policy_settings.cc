#include "loadtest/quality/policy_settings.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace lynx {
namespace {

std::string with(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

class List {
 public:
  List(std::string name, PolicyKind kind, WeightRule weights)
      : name_(std::move(name)), kind_(kind), weights_(weights) {}
  // label: of the setting, which goes behind the name.
  void add(const std::string& label, const auto& set) {
    PolicySetting s{.policy = {.kind = kind_, .weights = weights_},
                    .name = name_,
                    .label = label.empty() ? name_ : name_ + " " + label,
                    .is_default = settings.empty()};
    set(s.policy);
    settings.push_back(std::move(s));
  }
  PolicyKind kind() const { return kind_; }
  std::vector<PolicySetting> settings;

 private:
  std::string name_;
  PolicyKind kind_;
  WeightRule weights_;
};

List list_of(const std::string& policy) {
  const std::size_t slash = policy.find('/');
  const auto kind = parse_policy_kind(policy.substr(0, slash));
  if (!kind) throw std::runtime_error("--policies: " + kind.error().message);
  if (slash == std::string::npos) return {policy, *kind, RoutePolicy{}.weights};
  const auto weights = parse_weight_rule(policy.substr(slash + 1));
  if (!weights) throw std::runtime_error("--policies: " + policy + ": " + weights.error().message);
  return {policy, *kind, *weights};
}

void add_lynx(List& list, const RouterShape& shape) {
  const double window = 0.5 * std::log(static_cast<double>(shape.experts) / shape.top_k);
  for (const double factor : {1.0, 0.7, 1.35}) {
    const auto w = static_cast<float>(factor * window);
    list.add(with("W=%.2f", w), [&](RoutePolicy& p) { p.window = factor == 1.0 ? 0 : w; });
  }
}

void add_share(List& list, const RouterShape& shape) {
  const double middle = shape.top_k > 2 ? 0.8 : 0.4;
  for (const double factor : {1.0, 0.75, 1.3}) {
    const auto c = static_cast<float>(factor * middle);
    list.add(with("c=%.2f", c), [&](RoutePolicy& p) { p.share = c; });
  }
}

void add_ranks(List& list, const RouterShape& shape, const char* format) {
  for (const std::uint32_t keep : {4U, 3U, 5U, 1U})
    if (keep < shape.top_k || (keep == 1 && shape.top_k == 1))
      list.add(with(format, keep), [&](RoutePolicy& p) { p.keep = keep; });
}

}  // namespace

std::vector<PolicySetting> settings_of(const std::string& policy, const RouterShape& shape,
                                       bool default_only) {
  List list = list_of(policy);
  switch (list.kind()) {
    case PolicyKind::kOff:
      list.add("", [](RoutePolicy&) {});
      break;
    case PolicyKind::kLynx:
      add_lynx(list, shape);
      break;
    case PolicyKind::kShare:
      add_share(list, shape);
      break;
    case PolicyKind::kEnergy:
      for (const float factor : {1.0F, 0.5F, 1.7F, 2.5F})
        list.add(with("x%.1f", factor), [&](RoutePolicy& p) { p.energy = factor; });
      break;
    case PolicyKind::kSweep:
      for (const float part : {0.8F, 0.7F, 0.9F})
        list.add(with("%.2f", part), [&](RoutePolicy& p) { p.part = part; });
      break;
    case PolicyKind::kXshare:
      for (const std::uint32_t share : {2U, 3U}) {
        const std::uint32_t budget = shape.experts / share;
        list.add(with("m=%.0f", budget), [&](RoutePolicy& p) { p.budget = budget; });
      }
      break;
    case PolicyKind::kOea:
      add_ranks(list, shape, "k0=%.0f");
      break;
    case PolicyKind::kTopKReduced:
      add_ranks(list, shape, "%.0f");
      break;
    case PolicyKind::kDenyRank:
      throw std::runtime_error("--policies: deny_rank is measured by itself, rank by rank");
  }
  if (default_only && !list.settings.empty()) list.settings.resize(1);
  for (const PolicySetting& s : list.settings)
    if (const Status fits = check_policy(shape, s.policy); !fits)
      throw std::runtime_error("--policies: " + policy + ": " + fits.error().message);
  return std::move(list.settings);
}

}  // namespace lynx
