#include "services/engine/drift_guard.h"

#include <algorithm>
#include <cmath>

namespace lynx {
namespace {

constexpr double kMemory = 16;              // samples
constexpr std::uint32_t kTightenAfter = 4;  // a single odd token changes nothing
constexpr std::uint32_t kRelaxAfter = 32;
constexpr double kRelaxBelow = 0.5;  // of the limit

struct Normaliser {
  float max = 0;
  double log_sum = 0;
  bool usable = false;
};

Normaliser normaliser_of(std::span<const float> logits) {
  Normaliser n{.max = *std::max_element(logits.begin(), logits.end())};
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z - n.max));
  n.log_sum = std::log(sum);
  n.usable = std::isfinite(sum);
  return n;
}

}  // namespace

DriftSample compare_logits(std::span<const float> exact, std::span<const float> served) {
  const Normaliser p = normaliser_of(exact), q = normaliser_of(served);
  if (!p.usable || !q.usable) return {};
  DriftSample out;
  for (std::size_t v = 0; v < exact.size(); ++v) {
    const double log_p = exact[v] - p.max - p.log_sum;
    if (log_p > -40) out.kl += std::exp(log_p) * (log_p - (served[v] - q.max - q.log_sum));
  }
  out.kl = std::clamp(out.kl, 0.0, 40.0);
  out.flipped = std::max_element(exact.begin(), exact.end()) - exact.begin() !=
                std::max_element(served.begin(), served.end()) - served.begin();
  return out;
}

RoutePolicy tightened(const RoutePolicy& policy, const RouterShape& shape, std::uint32_t level) {
  if (level == 0 || policy.kind == PolicyKind::kOff) return policy;
  RoutePolicy out = policy;
  if (level >= kDriftLevels) {
    out.kind = PolicyKind::kOff;
    return out;
  }
  const float step = static_cast<float>(level);
  switch (policy.kind) {
    case PolicyKind::kLynx: {
      const float derived =
          0.5F * std::log(static_cast<float>(shape.experts) / static_cast<float>(shape.top_k));
      out.window = (policy.window > 0 ? policy.window : derived) * (1 + 0.25F * step);
      break;
    }
    case PolicyKind::kEnergy:
      out.energy = policy.energy * std::pow(0.6F, step);
      break;
    case PolicyKind::kShare:
      out.share = policy.share * std::pow(0.8F, step);
      break;
    case PolicyKind::kOea:
    case PolicyKind::kTopKReduced:
      out.keep = std::min(policy.keep + level, shape.top_k);
      break;
    case PolicyKind::kXshare: {
      const std::uint32_t budget = policy.budget > 0 ? policy.budget : shape.experts / 2;
      out.budget = std::min(budget + level * std::max(1U, shape.experts / 12), shape.experts);
      break;
    }
    case PolicyKind::kOff:
    case PolicyKind::kSweep:
    case PolicyKind::kDenyRank:
      break;
  }
  return out;
}

bool DriftGuard::samples_step(std::uint32_t rows) {
  // A row alone keeps its experts: there is nothing to see. A policy turned off is still looked at, or it
  // would never come back.
  if (limits_.sample_every == 0 || configured_.kind == PolicyKind::kOff || rows < 2) return false;
  if (++steps_ < limits_.sample_every) return false;
  steps_ = 0;
  return true;
}

bool DriftGuard::observe(const DriftSample& sample) {
  ++samples_;
  mean_ += (sample.kl - mean_) / std::min(static_cast<double>(samples_), kMemory);
  judged_ = mean_;
  if (mean_ > limits_.kl && samples_ >= kTightenAfter && level_ < kDriftLevels) {
    set_level(level_ + 1);
    return true;
  }
  if (mean_ < kRelaxBelow * limits_.kl && samples_ >= kRelaxAfter && level_ > 0) {
    set_level(level_ - 1);
    return true;
  }
  return false;
}

// What was seen under the other policy says nothing about this one.
void DriftGuard::set_level(std::uint32_t level) {
  level_ = level;
  policy_ = tightened(configured_, shape_, level);
  samples_ = 0;
  mean_ = 0;
}

}  // namespace lynx
