#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/loadtest/replay/sample_run.h"

namespace lynx {
namespace {

TEST(ResultReader, ReadsBackWhatWasWritten) {
  RunView run = testing::sample_run("A", 30, 1, 3);
  run.outcomes[4] = testing::refused(200, "http_429", "full");
  run.outcomes[0].warm_up = true;
  RunFacts facts = run.report.facts;
  facts.warm_up_s = 0.02;
  WorkerReport workers;
  workers.layer_steps = 10;
  workers.routed_mean = 40;
  workers.activated_mean = 20;
  workers.kv_bytes = {{"tcp", 5e6}};
  run.report = make_report(facts, run.outcomes, workers);
  run.timeline = make_timeline(run.outcomes, facts.slos, facts.duration_s);
  run.fleet = {.at_s = {1, 2},
               .routed = {40, std::nan("")},
               .activated = {20, 21},
               .layer_steps = {7, 0},
               .batch = {3, std::nan("")},
               .kv_bytes_per_s = {1, 2},
               .kv_ms = {3, 4}};
  run.workers = {
      {.name = "d", .decodes = true, .at_s = {1}, .busy = {0.5}, .batch = {8}, .blocks_used = {0.1}}};

  const std::string text = result_json(run, /*with_requests=*/true);
  const auto back = parse_result(text, "out.json");
  ASSERT_TRUE(back.ok()) << back.error().message;
  RunView again = *back;
  again.name = run.name;
  EXPECT_EQ(nlohmann::json::parse(result_json(again, true)), nlohmann::json::parse(text));
}

TEST(ResultReader, WhatIsWrongIsNamed) {
  const RunView run = testing::sample_run("A", 3, 1, 3);
  const auto message = [](const std::string& text) {
    const auto read = parse_result(text, "out.json");
    EXPECT_FALSE(read.ok());
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(message("not JSON"), "out.json: no JSON object");
  EXPECT_NE(message(result_json(run, false)).find("--save-requests"), std::string::npos);
  auto parsed = nlohmann::json::parse(result_json(run, true));
  parsed["requests"][1]["ttft"] = "soon";
  EXPECT_EQ(message(parsed.dump()), "out.json: requests[1]: ttft is missing or no number");
  parsed["requests"][1]["ttft"] = 0.1;
  parsed["requests"][2]["slo_class"] = "nobody";
  EXPECT_EQ(message(parsed.dump()), "out.json: requests[2]: slo_class 'nobody' is no class of the run");
  for (const auto& [place, value, told] :
       {std::tuple{"/duration", nlohmann::json(1e300), "out.json: duration is out of range"},
        {"/warm_up/seconds", nlohmann::json(-1e9), "out.json: warm_up.seconds is out of range"},
        {"/seed", nlohmann::json(1e30), "out.json: seed is no whole number"}}) {
    auto wrong = nlohmann::json::parse(result_json(run, true));
    wrong[nlohmann::json::json_pointer(place)] = value;
    EXPECT_EQ(message(wrong.dump()), told);
  }
  auto uneven = nlohmann::json::parse(result_json(run, true));
  uneven["fleet"]["batch"] = {1, 2};
  EXPECT_EQ(message(uneven.dump()), "out.json: fleet.batch differs in length from at_s");
  uneven = nlohmann::json::parse(result_json(run, true));
  uneven["workers"] = {{{"name", "d"},
                        {"at_s", {1}},
                        {"busy", nlohmann::json::array()},
                        {"batch", {1}},
                        {"kv_blocks_used", {1}}}};
  EXPECT_EQ(message(uneven.dump()), "out.json: workers[0].busy differs in length from at_s");
  parsed["requests"] = {17};
  EXPECT_NE(message(parsed.dump()).find("requests[0]: is no object"), std::string::npos);
  EXPECT_NE(read_result("/nowhere/out.json").error().message.find("/nowhere/out.json"), std::string::npos);
}

}  // namespace
}  // namespace lynx
