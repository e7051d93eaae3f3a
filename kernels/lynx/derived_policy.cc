#include "kernels/lynx/derived_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lynx {
namespace {

// 1 + ceil(log2(N / k)), without a logarithm.
std::uint32_t default_bins(const RouterShape& shape) {
  std::uint32_t doublings = 0;
  for (std::uint64_t reach = shape.top_k; reach < shape.experts; reach *= 2) ++doublings;
  return 1 + doublings;
}

float default_window(const RouterShape& shape) {
  return static_cast<float>(0.5 * std::log(static_cast<double>(shape.experts) / shape.top_k));
}

}  // namespace

DerivedPolicy derive(const RouterShape& shape, const RoutePolicy& policy) {
  DerivedPolicy derived;
  derived.weights = policy.weights;
  derived.bins = policy.bins > 0 ? policy.bins : default_bins(shape);
  const float window = policy.window > 0 ? policy.window : default_window(shape);
  // A window of zero (k = N) leaves one bin for everything; a tiny one must not become infinity.
  if (window > 0)
    derived.alpha =
        std::min(static_cast<float>(derived.bins - 1) / window, std::numeric_limits<float>::max());
  derived.share_q16 = static_cast<std::uint32_t>(std::lround(policy.share * 65536.0));
  derived.energy_q16 = std::max(1U, static_cast<std::uint32_t>(std::lround(policy.energy * 65536.0)));
  derived.part_q16 = static_cast<std::uint32_t>(std::lround(policy.part * 65536.0));
  derived.keep = std::clamp(policy.keep, 1U, shape.top_k);
  derived.budget = std::clamp(policy.budget > 0 ? policy.budget : shape.experts / 2, 1U, shape.experts);
  return derived;
}

}  // namespace lynx
