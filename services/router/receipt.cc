#include "services/router/receipt.h"

#include <algorithm>

namespace lynx {
namespace {

double ratio(double part, std::uint64_t whole, double of_nothing) {
  return whole == 0 ? of_nothing : part / static_cast<double>(whole);
}

}  // namespace

void Receipt::add(const StepReceipt& step) {
  ++steps_;
  assignments_ += step.assignments;
  remapped_ += step.remapped;
  mass_ += step.router_mass;
  worst_mass_ = std::min(worst_mass_, step.router_mass);
  batches_ += step.batch;
  batch_max_ = std::max(batch_max_, step.batch);
}

void Receipt::add(const Receipt& other) {
  steps_ += other.steps_;
  assignments_ += other.assignments_;
  remapped_ += other.remapped_;
  mass_ += other.mass_;
  worst_mass_ = std::min(worst_mass_, other.worst_mass_);
  batches_ += other.batches_;
  batch_max_ = std::max(batch_max_, other.batch_max_);
}

double Receipt::remapped_share() const { return ratio(static_cast<double>(remapped_), assignments_, 0); }
double Receipt::router_mass_mean() const { return ratio(mass_, steps_, 1); }
double Receipt::router_mass_worst() const { return worst_mass_; }
double Receipt::batch_mean() const { return ratio(static_cast<double>(batches_), steps_, 0); }

}  // namespace lynx
