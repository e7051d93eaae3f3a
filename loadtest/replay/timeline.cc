#include "loadtest/replay/timeline.h"

#include <algorithm>
#include <cmath>

#include "loadtest/replay/statistics.h"

namespace lynx {
namespace {

double milliseconds(Clock::duration d) { return 1e3 * seconds(d); }

// 1, 2 or 5 times a power of ten: bins that a reader can count with.
double round_width(double wanted) {
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= wanted * 0.999) return step * power;
  return 10 * power;
}

Quantiles quantiles(std::vector<double> samples) {
  const Summary s = summarize(std::move(samples));
  return {.count = s.count, .mean = s.mean, .p50 = s.p50, .p90 = s.p90, .p99 = s.p99};
}

class Binner {
 public:
  Binner(Timeline& timeline) : timeline_(timeline), latencies_(timeline.bins.size()) {}

  void add(const Outcome& outcome, const std::vector<SloTarget>& slos) {
    const Clock::duration end = outcome.sent_at + outcome.e2e;
    ++bin(outcome.sent_at - outcome.lateness).offered;
    TimeBin& sent = bin(outcome.sent_at);
    ++sent.sent;
    ++(outcome.completed() ? bin(end).completed : bin(end).failed);
    changes_.emplace_back(outcome.sent_at, 1);
    changes_.emplace_back(end, -1);
    if (!outcome.completed()) return;
    sent.met += within(slos[outcome.slo], outcome) ? 1 : 0;
    latencies_[index(outcome.sent_at)].ttft.push_back(milliseconds(outcome.ttft));
    if (outcome.has_tpot()) latencies_[index(outcome.sent_at)].tpot.push_back(milliseconds(outcome.tpot()));
    add_pieces(outcome);
  }

  void finish() {
    count_in_flight();
    for (std::size_t i = 0; i < latencies_.size(); ++i) {
      TimeBin& out = timeline_.bins[i];
      out.ttft_ms = quantiles(std::move(latencies_[i].ttft));
      out.tpot_ms = quantiles(std::move(latencies_[i].tpot));
      out.itl_ms = quantiles(std::move(latencies_[i].itl));
    }
  }

 private:
  struct Latencies {
    std::vector<double> ttft, tpot, itl;
  };

  std::size_t index(Clock::duration at) const {
    const double place = std::max(0.0, seconds(at)) / timeline_.bin_s;
    return std::min(static_cast<std::size_t>(place), timeline_.bins.size() - 1);
  }
  TimeBin& bin(Clock::duration at) { return timeline_.bins[index(at)]; }

  void add_pieces(const Outcome& outcome) {
    Clock::duration at = outcome.sent_at + outcome.ttft;
    ++bin(at).tokens;
    for (const Clock::duration gap : outcome.itl) {
      at += gap;
      ++bin(at).tokens;
      latencies_[index(at)].itl.push_back(milliseconds(gap));
    }
  }

  // The most in flight in each bin; one that nothing starts or ends in keeps what came before.
  void count_in_flight() {
    std::ranges::sort(changes_);  // at equal times ends come first
    std::size_t next = 0;
    std::int64_t now = 0;
    for (std::size_t i = 0; i < timeline_.bins.size(); ++i) {
      std::int64_t most = now;
      for (; next < changes_.size() && index(changes_[next].first) == i; ++next)
        most = std::max(most, now += changes_[next].second);
      timeline_.bins[i].in_flight = static_cast<std::size_t>(most);
    }
  }

  Timeline& timeline_;
  std::vector<Latencies> latencies_;
  std::vector<std::pair<Clock::duration, int>> changes_;
};

}  // namespace

bool within(const SloTarget& slo, const Outcome& outcome) {
  if (!outcome.completed()) return false;
  const bool ttft = slo.ttft.count() == 0 || outcome.ttft <= slo.ttft;
  return ttft && (slo.tpot.count() == 0 || !outcome.has_tpot() || outcome.tpot() <= slo.tpot);
}

Timeline make_timeline(const std::vector<Outcome>& outcomes, const std::vector<SloTarget>& slos,
                       double duration_s, std::size_t about) {
  Timeline timeline;
  for (const Outcome& outcome : outcomes)
    duration_s = std::max(duration_s, seconds(outcome.sent_at + outcome.e2e));
  timeline.bin_s =
      round_width(std::max(0.2, duration_s / static_cast<double>(std::max<std::size_t>(about, 1))));
  timeline.bins.resize(
      std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(duration_s / timeline.bin_s))));
  for (std::size_t i = 0; i < timeline.bins.size(); ++i)
    timeline.bins[i].at_s = static_cast<double>(i) * timeline.bin_s;
  Binner binner(timeline);
  for (const Outcome& outcome : outcomes) binner.add(outcome, slos);
  binner.finish();
  return timeline;
}

}  // namespace lynx
