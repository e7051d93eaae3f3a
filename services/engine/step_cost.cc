#include "services/engine/step_cost.h"

#include <algorithm>
#include <cmath>

namespace lynx {
namespace {

// "Nothing is known yet" about a weight, in seconds per megabyte, squared.
constexpr double kVague = 1e6;

}  // namespace

StepCost::StepCost(double memory) : forgetting_(1 - 1 / memory) {
  for (int i = 0; i < kTerms; ++i) covariance_[i][i] = kVague;
}

void StepCost::observe(const StepWork& work, double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return;
  const Vector x = features(work);
  Vector px{};
  double r = 0;  // x' P x: how uncertain the prediction for this step was
  double error = seconds;
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) px[i] += covariance_[i][j] * x[j];
    r += x[i] * px[i];
    error -= weights_[i] * x[i];
  }
  ++samples_;
  if (r <= 0) return;
  // Directional forgetting (Kulhavy 1987): r becomes r / (lambda (1 + r)), and only in the direction of this
  // sample. A worker whose steps are all alike for hours learns nothing about the other directions, and must
  // not forget them either.
  const double shrink = (forgetting_ * r - (1 - forgetting_)) / (forgetting_ * r * (1 + r));
  for (int i = 0; i < kTerms; ++i) {
    weights_[i] += px[i] / (1 + r) * error;
    for (int j = 0; j < kTerms; ++j) covariance_[i][j] -= px[i] * px[j] * shrink;
  }
}

double StepCost::predict(const StepWork& work) const {
  const Vector x = features(work);
  double seconds = 0;
  for (int i = 0; i < kTerms; ++i) seconds += weights_[i] * x[i];
  return std::max(seconds, 0.0);
}

}  // namespace lynx
