#include "services/router/admission_queue.h"

#include <algorithm>
#include <cmath>

namespace lynx {
namespace {

constexpr double kMeterSeconds = 5;  // weight of an event falls to 1/e over this time
constexpr double kMaxRetryAfter = 60;

}  // namespace

AdmissionQueue::AdmissionQueue(std::vector<std::uint64_t> class_limits)
    : limits_(std::move(class_limits)), depth_(limits_.size(), 0) {}

bool AdmissionQueue::has_room(std::size_t slo_class, std::size_t sequences) const {
  return depth_[slo_class] + sequences <= limits_[slo_class];
}

void AdmissionQueue::push(std::uint64_t flow, std::size_t slo_class, Clock::time_point first_token_deadline) {
  if (!waiting_.emplace(flow, Waiting{first_token_deadline, slo_class}).second) return;
  order_.emplace(first_token_deadline, flow);
  ++depth_[slo_class];
}

void AdmissionQueue::erase(std::uint64_t flow) {
  const auto at = waiting_.find(flow);
  if (at == waiting_.end()) return;
  order_.erase({at->second.key, flow});
  --depth_[at->second.slo_class];
  waiting_.erase(at);
}

std::vector<std::uint64_t> AdmissionQueue::flows() const {
  std::vector<std::uint64_t> out;
  out.reserve(order_.size());
  for (const auto& [key, flow] : order_) out.push_back(flow);
  return out;
}

void RateMeter::record(Clock::time_point now) {
  rate_ = per_second(now) + 1 / kMeterSeconds;
  updated_ = now;
}

double RateMeter::per_second(Clock::time_point now) const {
  return rate_ * std::exp(-seconds(now - updated_) / kMeterSeconds);
}

int retry_after_seconds(std::size_t waiting, double per_second) {
  if (per_second * kMaxRetryAfter <= static_cast<double>(waiting)) return static_cast<int>(kMaxRetryAfter);
  return static_cast<int>(std::max(1.0, std::ceil(static_cast<double>(waiting) / per_second)));
}

}  // namespace lynx
