// The router's metrics: latencies as the client sees them (the transfer and the decode queue included), and
// what the router decided. One sequence is one observation: a request with n = 4 counts four times, except in
// e2e_seconds and requests_total. Clients that hang up count nowhere but in requests_total{code="499"}.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/clock.h"
#include "common/metrics/registry.h"
#include "services/router/slo_class.h"

namespace lynx {

enum class RejectReason : std::uint8_t { kQueueFull, kQueueTimeout, kNoWorkers, kDeadline, kDraining };
inline constexpr std::size_t kRejectReasons = 5;

// What became of one sequence's promise.
struct SloOutcome {
  bool ttft = false;
  bool tpot = false;
  bool all = false;
};

class RouterMetrics {
 public:
  RouterMetrics(MetricsRegistry& registry, const std::vector<SloClass>& classes, std::string policy);

  struct PerClass {
    prometheus::Histogram* ttft;
    prometheus::Histogram* tpot;
    prometheus::Histogram* itl;
    prometheus::Histogram* e2e;
    prometheus::Histogram* queue;
    // Of sequences that asked for a receipt and decoded at least one step.
    prometheus::Histogram* remapped_share;
    prometheus::Histogram* router_mass_mean;
    prometheus::Histogram* router_mass_worst;
    prometheus::Histogram* batch_mean;
    prometheus::Gauge* depth;
    std::array<std::array<prometheus::Counter*, 2>, 3> slo;  // [ttft, tpot, all][missed, met]
  };
  PerClass& of(std::size_t slo_class) { return classes_[slo_class]; }

  void slo(std::size_t slo_class, const SloOutcome& outcome);
  void request_done(int code);
  void rejected(RejectReason reason) { rejected_[static_cast<std::size_t>(reason)]->Increment(); }
  void retried() { retries_->Increment(); }
  void resumed() { resumes_->Increment(); }
  void selected(const std::string& worker);
  void transferred(double total_seconds, double exposed_seconds);
  void workers(std::string_view role, std::size_t serving, std::size_t aside, std::size_t registered);
  void put_aside(const std::string& worker);

 private:
  MetricsRegistry& registry_;
  std::string policy_;
  std::vector<PerClass> classes_;
  std::array<prometheus::Counter*, kRejectReasons> rejected_{};
  prometheus::Counter* retries_;
  prometheus::Counter* resumes_;
  prometheus::Histogram* transfer_;
  prometheus::Histogram* exposed_;
  std::map<int, prometheus::Counter*> by_code_;
  std::map<std::string, prometheus::Counter*> by_worker_;
};

}  // namespace lynx
