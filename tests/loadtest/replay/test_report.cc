#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "loadtest/replay/run_view.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

Outcome completed(std::size_t slo, Clock::duration sent, Clock::duration ttft,
                  std::vector<Clock::duration> itl) {
  Outcome o;
  o.slo = slo;
  o.sent_at = sent;
  o.lateness = 1ms;
  o.input_tokens = 100;
  o.output_tokens = static_cast<std::uint32_t>(itl.size() + 1);
  o.ttft = o.e2e = ttft;
  for (const auto gap : itl) o.e2e += gap;
  o.itl = std::move(itl);
  return o;
}

Outcome failed(std::size_t slo, std::string cause, std::string detail) {
  Outcome o;
  o.slo = slo;
  o.sent_at = 3s;
  o.e2e = 1s;
  o.failure = std::move(cause);
  o.detail = std::move(detail);
  return o;
}

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    facts_.slos = {{.name = "fast", .share = 0.5, .ttft = 100ms, .tpot = 20ms},
                   {.name = "slow", .share = 0.5, .ttft = 10s, .tpot = 0us},
                   {.name = "idle", .share = 0, .ttft = 1s, .tpot = 1s}};
    facts_.duration_s = 10;
    facts_.trace_name = "some.csv";
    facts_.trace_sha256 = "ab";
    facts_.options.slice = Slice{569s, 60s};
    facts_.options.speedup = 2;
    facts_.rejected.add(7, "not a JSON object");
    outcomes_ = {completed(0, 0s, 50ms, {10ms, 20ms}),  // both met
                 completed(0, 1s, 150ms, {10ms}),       // TTFT missed
                 completed(0, 1s, 50ms, {30ms, 30ms}),  // TPOT missed
                 completed(1, 1s, 5s, {500ms}),         // no TPOT objective
                 completed(0, 2s, 100ms, {}),           // one token: no TPOT; exactly at the objective
                 failed(0, "http_429", "full"),        failed(1, "http_429", "full again"),
                 failed(1, "timeout", "late")};
  }
  Report make() { return make_report(facts_, outcomes_, workers_); }
  nlohmann::json json(bool with_requests = false) {
    const RunView run{
        .name = "A", .report = make(), .outcomes = outcomes_, .timeline = {}, .fleet = {}, .workers = {}};
    return nlohmann::json::parse(result_json(run, with_requests));
  }

  RunFacts facts_;
  std::vector<Outcome> outcomes_;
  WorkerReport workers_;
};

TEST_F(ReportTest, CountsGoodputAndAttainmentPerClass) {
  const auto r = make();
  EXPECT_EQ(r.completed, 5u);
  EXPECT_EQ(r.failures, (std::map<std::string, std::size_t>{{"http_429", 2}, {"timeout", 1}}));
  EXPECT_EQ(r.first_detail.at("http_429"), "full");
  ASSERT_EQ(r.classes.size(), 3u);
  EXPECT_EQ(r.classes[0].requests, 5u);
  EXPECT_EQ(r.classes[0].met_ttft, 3u);
  EXPECT_EQ(r.classes[0].met_tpot, 3u);
  EXPECT_EQ(r.classes[0].met, 2u);
  EXPECT_DOUBLE_EQ(r.classes[0].attainment(), 0.4) << "a failed request meets nothing";
  EXPECT_EQ(r.classes[1].met, 1u);
  EXPECT_EQ(r.classes[2].attainment(), 0);
  EXPECT_EQ(r.met(), 3u);
}

TEST_F(ReportTest, LatenciesAreOfCompletedRequests) {
  const auto r = make();
  EXPECT_EQ(r.ttft_ms.count, 5u);
  EXPECT_DOUBLE_EQ(r.ttft_ms.p50, 100);
  EXPECT_EQ(r.tpot_ms.count, 4u);
  EXPECT_EQ(r.itl_ms.count, 6u);
  EXPECT_DOUBLE_EQ(r.e2e_ms.max, 5500);
  EXPECT_EQ(r.lateness_ms.count, 8u);
  EXPECT_EQ(r.output_tokens, 11u);
  EXPECT_EQ(r.input_tokens, 500u);
  EXPECT_EQ(r.peak_concurrency, 4u) << "three failed ones wait from 3 s to 4 s beside the long one";
  EXPECT_EQ(r.peak_output_tokens_per_s, 5) << "in second 1";
}

TEST_F(ReportTest, JsonHasTheKeysOfVllmAndOurs) {
  workers_.layer_steps = 60;
  workers_.routed_mean = 38.1;
  workers_.activated_mean = 22.7;
  workers_.kv_bytes = {{"tcp", 1e6}};
  const auto j = json();
  for (const char* key :
       {"date", "model_id", "num_prompts", "duration", "completed", "failed", "total_input_tokens",
        "total_output_tokens", "request_throughput", "request_goodput", "output_throughput",
        "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests"})
    EXPECT_TRUE(j.contains(key)) << key;
  for (const char* metric : {"ttft", "tpot", "itl", "e2el"})
    for (const char* kind : {"mean", "median", "std", "p50", "p90", "p99"})
      EXPECT_TRUE(j.contains(std::string(kind) + "_" + metric + "_ms")) << kind << metric;
  EXPECT_DOUBLE_EQ(j["request_throughput"], 0.5);
  EXPECT_DOUBLE_EQ(j["request_goodput"], 0.3);
  EXPECT_DOUBLE_EQ(j["output_throughput"], 1.1);
  EXPECT_EQ(j["errors"]["http_429"], 2);
  EXPECT_EQ(j["trace"]["file"], "some.csv");
  EXPECT_EQ(j["trace"]["sha256"], "ab");
  EXPECT_EQ(j["trace"]["rejected"], 1);
  EXPECT_EQ(j["trace"]["rejected_rows"][0]["line"], 7);
  EXPECT_EQ(j["slice"]["start_s"], 569);
  EXPECT_EQ(j["speedup"], 2);
  EXPECT_EQ(j["lateness"]["p99_ms"], 1);
  EXPECT_EQ(j["slo"]["fast"]["met"], 2);
  EXPECT_EQ(j["slo"]["fast"]["ttft_ms"], 100);
  EXPECT_EQ(j["experts"]["activated_mean"], 22.7);
  EXPECT_EQ(j["kv"]["bytes_by_transport"]["tcp"], 1e6);
  EXPECT_FALSE(j.contains("requests"));
}

TEST_F(ReportTest, JsonCanCarryEveryRequest) {
  outcomes_.back().detail = "broken \xFF bytes";
  const auto j = json(/*with_requests=*/true);
  ASSERT_EQ(j["requests"].size(), 8u);
  EXPECT_EQ(j["requests"][0]["slo_class"], "fast");
  EXPECT_DOUBLE_EQ(j["requests"][0]["ttft"], 0.05);
  EXPECT_EQ(j["requests"][7]["error"], "timeout");
  EXPECT_TRUE(j["experts"].is_null()) << "nothing scraped";
}

TEST_F(ReportTest, TextNamesEveryFigure) {
  workers_.layer_steps = 60;
  workers_.routed_mean = 38.1;
  workers_.activated_mean = 22.7;
  workers_.kv_bytes = {{"tcp", 2.5e6}};
  const auto text = report_text(make());
  for (const char* part :
       {"done 5 of 8", "failed 3", "2 x http_429: full", "TTFT", "TPOT", "ITL", "end to end", "p99",
        "sent late", "fast", "40.0%", "goodput", "routed 38.1 -> activated 22.7", "2.5 MB over tcp",
        "1 x not a JSON object", "from 569 s", "tokens/s"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST_F(ReportTest, TheWarmUpIsInNoFigure) {
  facts_.warm_up_s = 1;
  outcomes_[0].warm_up = true;
  outcomes_[0].ttft = 9s;  // would be seen
  const auto r = make();
  EXPECT_EQ(r.warm_up_requests, 1u);
  EXPECT_EQ(r.requests, 7u);
  EXPECT_EQ(r.completed, 4u);
  EXPECT_EQ(r.classes[0].requests, 4u);
  EXPECT_DOUBLE_EQ(r.ttft_ms.max, 5000);
  EXPECT_DOUBLE_EQ(r.judged_s(), 9);
  EXPECT_DOUBLE_EQ(r.per_second(9), 1);
}

TEST_F(ReportTest, OfferedLoadIsOverTheArrivalsAchievedOverTheRun) {
  for (Outcome& o : outcomes_) o.lateness = 0ms;
  for (Outcome& o : outcomes_) o.asked_tokens = 10;
  const auto r = make();
  EXPECT_DOUBLE_EQ(r.offered.seconds, 3) << "the last of them came at 3 s";
  EXPECT_DOUBLE_EQ(r.offered.requests_per_s, 8.0 / 3);
  EXPECT_DOUBLE_EQ(r.offered.output_tokens_per_s, 80.0 / 3) << "what failed was asked for too";
  EXPECT_DOUBLE_EQ(r.per_second(static_cast<double>(r.completed)), 0.5);
}

TEST_F(ReportTest, WhatWasNotMeasuredIsNoZero) {
  for (Outcome& o : outcomes_) o.failure = "http_503";
  auto text = report_text(make());
  EXPECT_NE(text.find("none completed"), std::string::npos) << text;
  EXPECT_EQ(text.find("TTFT  "), text.rfind("TTFT  ")) << "only where the classes have it: " << text;
  EXPECT_NE(text.find("name the workers with --metrics"), std::string::npos) << text;
  facts_.metrics_asked = 2;
  text = report_text(make_report(facts_, outcomes_, {}));
  EXPECT_NE(text.find("none of the workers scraped made a decode step"), std::string::npos) << text;
  facts_.metrics_problems = {"a: refused", "b: refused"};
  text = report_text(make_report(facts_, outcomes_, {}));
  EXPECT_NE(text.find("none of the workers could be scraped"), std::string::npos) << text;
  EXPECT_EQ(text.find("--metrics"), std::string::npos) << text;
}

TEST_F(ReportTest, NoRequestAtAllIsAReportToo) {
  outcomes_.clear();
  facts_.duration_s = 0;
  const auto r = make();
  EXPECT_EQ(r.completed, 0u);
  EXPECT_EQ(json()["request_throughput"], 0);
  EXPECT_FALSE(report_text(r).empty());
}

}  // namespace
}  // namespace lynx
