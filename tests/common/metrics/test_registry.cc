#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "common/metrics/registry.h"

namespace lynx {
namespace {

TEST(MetricsRegistry, SerializesWithPrefixLabelsAndHelp) {
  MetricsRegistry registry;
  registry.counter("requests_total", "Requests.", {{"slo_class", "batch"}}).Increment(3);
  registry.gauge("queue_depth", "Waiting.").Set(7);
  auto& seconds = registry.histogram("step_seconds", "Steps.", {0.1, 1});
  seconds.Observe(0.05);
  seconds.Observe(0.5);
  seconds.Observe(5);
  const std::string text = registry.serialize();
  for (const char* line :
       {"# HELP lynx_requests_total Requests.\n", "# TYPE lynx_requests_total counter\n",
        "lynx_requests_total{slo_class=\"batch\"} 3\n", "lynx_queue_depth 7\n",
        "lynx_step_seconds_bucket{le=\"0.1\"} 1\n", "lynx_step_seconds_bucket{le=\"1\"} 2\n",
        "lynx_step_seconds_bucket{le=\"+Inf\"} 3\n", "lynx_step_seconds_count 3\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(MetricsRegistry, EveryMetricCarriesTheLabelsOfItsProcess) {
  MetricsRegistry registry({{"model", "m"}, {"worker", "w"}});
  registry.counter("a_total", "A.", {{"kind", "x"}}).Increment();
  registry.gauge("b", "B.").Set(2);
  registry.histogram("c_seconds", "C.", {1}).Observe(3);
  const std::string text = registry.serialize();
  for (const char* line :
       {"lynx_a_total{model=\"m\",worker=\"w\",kind=\"x\"} 1\n", "lynx_b{model=\"m\",worker=\"w\"} 2\n",
        "lynx_c_seconds_count{model=\"m\",worker=\"w\"} 1\n",
        "lynx_c_seconds_bucket{model=\"m\",worker=\"w\",le=\"+Inf\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(MetricsRegistry, TheSameNameAndLabelsAreTheSameObject) {
  MetricsRegistry registry;
  auto& a = registry.counter("x_total", "X.", {{"kind", "read"}});
  EXPECT_EQ(&registry.counter("x_total", "X.", {{"kind", "read"}}), &a);
  EXPECT_NE(&registry.counter("x_total", "X.", {{"kind", "avoided"}}), &a);
}

TEST(MetricsRegistry, CountsFromManyThreadsWhileItIsRead) {
  MetricsRegistry registry;
  auto& counter = registry.counter("x_total", "X.");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) counter.Increment();
    });
  }
  for (int i = 0; i < 10; ++i) (void)registry.serialize();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.Value(), 4000);
}

TEST(MetricsRegistry, BoundsRise) {
  for (const auto* bounds :
       {&token_seconds_bounds(), &request_seconds_bounds(), &expert_count_bounds(), &ratio_bounds()})
    EXPECT_EQ(std::adjacent_find(bounds->begin(), bounds->end(), std::greater_equal<>()), bounds->end());
}

}  // namespace
}  // namespace lynx
