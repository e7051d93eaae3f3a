#include <gtest/gtest.h>

#include "loadtest/replay/worker_metrics.h"

namespace lynx {
namespace {

MetricsText text(std::string_view exposition) {
  MetricsText out;
  out.add(exposition);
  return out;
}

TEST(MetricsText, ReadsWhatWorkersExpose) {
  const auto m = text(
      "# HELP lynx_a_total help\n# TYPE lynx_a_total counter\n"
      "lynx_a_total{transport=\"tcp\",path=\"a b}\"} 12\n"
      "lynx_a_total{transport=\"sysv\"} 3.5 1700000000\n"
      "lynx_a_totally 100\nlynx_b 1e3\nlynx_nan NaN\nno value\n\n");
  EXPECT_EQ(m.sum("lynx_a_total"), 15.5);
  EXPECT_EQ(m.sum("lynx_a_total", "transport=\"tcp\""), 12);
  EXPECT_EQ(m.sum("lynx_b"), 1000);
  EXPECT_EQ(m.sum("lynx_nan"), 0);
  EXPECT_EQ(m.sum("absent"), 0);
  EXPECT_EQ(m.by_label("lynx_a_total", "transport"),
            (std::map<std::string, double>{{"tcp", 12}, {"sysv", 3.5}}));
}

TEST(MetricsText, ARestartedWorkerCountsFromZero) {
  const auto run = text("a 7\nb 12\nc 1\n").since(text("a 5\nb 100\n"));
  EXPECT_EQ(run.sum("a"), 2);
  EXPECT_EQ(run.sum("b"), 12);
  EXPECT_EQ(run.sum("c"), 1);
}

std::string decode_worker(double steps, double routed, double activated, double moved) {
  const auto line = [](const std::string& series, double v) {
    return series + " " + std::to_string(v) + "\n";
  };
  return line("lynx_step_seconds_count{phase=\"decode\"}", steps) +
         line("lynx_unique_experts_sum{stage=\"routed\"}", routed * steps) +
         line("lynx_unique_experts_count{stage=\"routed\"}", steps) +
         line("lynx_unique_experts_sum{stage=\"activated\"}", activated * steps) +
         line("lynx_unique_experts_count{stage=\"activated\"}", steps) +
         line("lynx_assignments_total", 1000) + line("lynx_remapped_assignments_total", moved) +
         line("lynx_retained_router_mass_sum", 0.9 * steps) + line("lynx_retained_router_mass_count", steps);
}

TEST(WorkerReport, ExpertsOfDecodeWorkersAndKvOfAll) {
  const std::string prefill =
      "lynx_step_seconds_count{phase=\"prefill\"} 50\n"
      "lynx_unique_experts_sum{stage=\"activated\"} 64000\nlynx_unique_experts_count{stage=\"activated\"} "
      "1000\n"
      "lynx_kv_transfer_bytes_total{transport=\"tcp\"} "
      "1000\nlynx_kv_transfer_bytes_total{transport=\"sysv\"} 0\n"
      "lynx_kv_transfer_seconds_sum 0.5\nlynx_kv_transfer_seconds_count 10\n"
      "lynx_kv_transfer_exposed_seconds_sum 0.02\nlynx_kv_transfer_exposed_seconds_count 10\n";
  const auto report =
      worker_report({{text(decode_worker(100, 1, 1, 0)), text(decode_worker(400, 38.5, 25.75, 250))},
                     {text(""), text(decode_worker(300, 50, 34, 100))},
                     {text(""), text(prefill)}});
  EXPECT_EQ(report.layer_steps, 600);
  EXPECT_NEAR(report.routed_mean, (400 * 38.5 - 100 + 300 * 50) / 600, 1e-9);
  EXPECT_NEAR(report.activated_mean, (400 * 25.75 - 100 + 300 * 34) / 600, 1e-9);
  EXPECT_NEAR(report.remapped_share, (250 + 100) / 1000.0, 1e-9)
      << "the first worker's 1000 assignments were there before";
  EXPECT_NEAR(report.retained_mass_mean, 0.9, 1e-9);
  EXPECT_EQ(report.kv_bytes, (std::map<std::string, double>{{"tcp", 1000}}));
  EXPECT_EQ(report.kv_transfers, 10);
  EXPECT_NEAR(report.kv_seconds_mean, 0.05, 1e-12);
  EXPECT_NEAR(report.kv_exposed_seconds_mean, 0.002, 1e-12);
}

TEST(WorkerReport, NothingKnownIsSaid) {
  const auto report = worker_report({});
  EXPECT_EQ(report.layer_steps, 0);
  EXPECT_TRUE(report.kv_bytes.empty());
}

}  // namespace
}  // namespace lynx
