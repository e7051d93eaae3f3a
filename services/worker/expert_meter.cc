#include "services/worker/expert_meter.h"

namespace lynx {

float ExpertMeter::Side::mean() {
  const auto now = histogram.Collect().histogram;
  const double more = static_cast<double>(now.sample_count) - count;
  const double added = now.sample_sum - sum;
  count += more;
  sum += added;
  return more > 0 ? static_cast<float>(added / more) : 0;
}

}  // namespace lynx
