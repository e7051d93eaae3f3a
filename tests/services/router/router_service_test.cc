// The router from socket to socket: HTTP in front, stub workers behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <utility>

#include "tests/services/router/router_rig.h"

namespace lynx::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

json body(int max_tokens, bool stream = false) {
  return {{"prompt", "hello"}, {"max_tokens", max_tokens}, {"stream", stream}};
}

// Field report 8.
TEST(RouterService, MaxTokensGivesExactlyThatMany) {
  RouterRig rig;
  rig.add_pair();
  for (const int n : {1, 2, 3, 26}) {
    for (const bool stream : {false, true}) {
      json request = body(n, stream);
      if (stream) request["stream_options"] = {{"include_usage", true}};
      const auto& reply = rig.post(request);
      rig.until_over(reply);
      ASSERT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.text().size(), static_cast<std::size_t>(n));
      EXPECT_EQ(reply.finish_reason(), "length");
      const json usage = stream ? reply.events.back()["usage"] : reply.reply()["usage"];
      EXPECT_EQ(usage["completion_tokens"], n);
      EXPECT_EQ(usage["prompt_tokens"], 5);
    }
  }
  EXPECT_TRUE(rig.all_idle());
}

TEST(RouterService, StreamAndWholeGiveTheSameText) {
  RouterRig rig;
  rig.add_pair();
  const std::string scripts[] = {"plain", "今日は晴れ🙂です", "half \xF0\x9F\x99",
                                 "",      "END first",        "x\xFFy END \xE4"};
  for (const auto& script : scripts) {
    rig.script(script);
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
      json request = body(64);
      request["stop"] = {"END", "れ🙂"};
      if (std::string(path).find("chat") != std::string::npos) {
        request.erase("prompt");
        request["messages"] = {{{"role", "user"}, {"content", "hello"}}};
      }
      const auto& whole = rig.post(request, path);
      request["stream"] = true;
      const auto& streamed = rig.post(request, path);
      rig.until([&] { return whole.over && streamed.over; });
      EXPECT_EQ(whole.text(), streamed.text()) << script;
      EXPECT_EQ(whole.finish_reason(), "stop");
      EXPECT_EQ(streamed.finish_reason(), "stop");
      EXPECT_TRUE(streamed.done_event);
      EXPECT_EQ(whole.text().find("END"), std::string::npos);
    }
  }
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AStopStringEndsTheDecodeWorkersWorkToo) {
  RouterRig rig;
  rig.add_pair();
  json request = body(1000);
  request["stop"] = "d";
  rig.script(std::string("abcd") + std::string(996, 'x'));
  const auto& reply = rig.post(request);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abc");
  rig.until([&] { return rig.all_idle(); }, milliseconds(200));
}

TEST(RouterService, ChoicesOfSeveralPromptsComeBackInOrder) {
  RouterRig rig;
  rig.add_pair();
  const auto& reply = rig.post({{"prompt", {"a", "bc"}}, {"n", 2}, {"max_tokens", 3}});
  rig.until_over(reply);
  const auto choices = reply.reply()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], "abc");
  }
  EXPECT_EQ(reply.reply()["usage"]["prompt_tokens"], 3) << "each prompt counts once";
  EXPECT_EQ(reply.reply()["usage"]["completion_tokens"], 12);
}

TEST(RouterService, LogprobsComeInBothShapes) {
  RouterRig rig;
  rig.add_pair();
  const auto& text = rig.post({{"prompt", "x"}, {"max_tokens", 2}, {"logprobs", 1}});
  const auto& chat = rig.post({{"messages", {{{"role", "user"}, {"content", "x"}}}},
                               {"max_tokens", 2},
                               {"stream", true},
                               {"logprobs", true},
                               {"top_logprobs", 2}},
                              "/v1/chat/completions");
  rig.until([&] { return text.over && chat.over; });
  EXPECT_EQ(text.reply()["choices"][0]["logprobs"]["tokens"], json({"a", "b"}));
  std::vector<std::string> told;
  for (const auto& event : chat.events)
    if (event["choices"][0]["logprobs"].is_object())
      for (const auto& entry : event["choices"][0]["logprobs"]["content"]) told.push_back(entry["token"]);
  EXPECT_EQ(told, (std::vector<std::string>{"a", "b"}));
}

json with_receipt(int max_tokens, bool stream) {
  json request = body(max_tokens, stream);
  request["lynx"] = {{"receipt", true}};
  if (stream) request["stream_options"] = {{"include_usage", true}};
  return request;
}

// The first token is prefill's; token i of the others is told of as the stub says.
TEST(RouterService, AReceiptSumsWhatTheDecodeStepsTell) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) {
    options.receipt = [](std::uint32_t i) {
      return StepReceipt{.assignments = 8, .remapped = i, .router_mass = i == 2 ? 0.5F : 1, .batch = i};
    };
  });
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto told = json::parse(R"({"steps":4,"remapped_share":0.3125,
    "router_mass":{"mean":0.875,"worst_step":0.5},"batch":{"mean":2.5,"max":4}})");
  for (const bool stream : {false, true}) {
    const auto& reply = rig.post(with_receipt(5, stream));
    rig.until_over(reply);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ((stream ? reply.events.back() : reply.reply())["usage"]["lynx"], told);
  }
  const auto& unasked = rig.post(body(5));
  json twice = with_receipt(5, false);
  twice["n"] = 2;
  const auto& choices = rig.post(twice);
  const auto& one = rig.post(with_receipt(1, false));
  rig.until([&] { return unasked.over && choices.over && one.over; });
  EXPECT_FALSE(unasked.reply()["usage"].contains("lynx"));
  EXPECT_EQ(choices.reply()["usage"]["lynx"]["steps"], 8);
  EXPECT_EQ(choices.reply()["usage"]["lynx"]["remapped_share"], 0.3125);
  EXPECT_EQ(one.reply()["usage"]["lynx"]["steps"], 0);
  const auto& metrics = rig.get("/metrics");
  rig.until_over(metrics);
  const auto shows = [&](const char* line) { return metrics.body.find(line) != std::string::npos; };
  EXPECT_TRUE(shows("lynx_receipt_remapped_share_count{model=\"stub\",slo_class=\"standard\"} 4\n"))
      << metrics.body;
  EXPECT_TRUE(shows("lynx_receipt_remapped_share_sum{model=\"stub\",slo_class=\"standard\"} 1.25\n"));
}

TEST(RouterService, AReceiptThatCannotBeTrueIsLeftOut) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) {
    options.receipt = [](std::uint32_t i) {
      StepReceipt out{.assignments = 8, .remapped = 0, .router_mass = 1, .batch = 1};
      if (i == 1) out.router_mass = std::numeric_limits<float>::quiet_NaN();
      if (i == 2) out.remapped = 9;
      if (i == 3) out.batch = 0;
      return out;
    };
  });
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(with_receipt(6, false));
  rig.until_over(reply);
  EXPECT_EQ(reply.reply()["usage"]["lynx"]["steps"], 2);
  EXPECT_EQ(reply.reply()["usage"]["lynx"]["router_mass"]["mean"], 1);
}

TEST(RouterService, AKilledPrefillWorkerIsReplacedBeforeTheFirstToken) {
  RouterRig rig;
  StubWorker::Hooks stuck;
  stuck.on_prefill = [](proto::Prefill::Reader) { return true; };
  StubWorker& doomed = rig.add(proto::Role::PREFILL, "p0", nullptr, stuck);
  rig.add(proto::Role::DECODE, "d");
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(body(4, true));
  rig.until([&] { return doomed.holding() == 1; });
  rig.add(proto::Role::PREFILL, "p1");
  rig.until([&] { return rig.router->dispatcher().workers().find("p1") != nullptr; });
  rig.kill(doomed);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abcd");
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AKilledDecodeWorkerCostsAPauseInTheStream) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t index) { return index >= 5; };  // stands still there
  const auto tells = [](StubOptions& options) {
    options.receipt = [](std::uint32_t) {
      return StepReceipt{.assignments = 8, .remapped = 2, .router_mass = 1, .batch = 1};
    };
  };
  StubWorker& doomed = rig.add(proto::Role::DECODE, "d0", tells, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& reply = rig.post(with_receipt(26, true));
  rig.until([&] { return reply.events.size() == 5; });
  rig.add(proto::Role::DECODE, "d1", tells);
  rig.kill(doomed);
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), "abcdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(reply.events.back()["usage"]["completion_tokens"], 26);
  EXPECT_EQ(reply.events.back()["usage"]["lynx"]["steps"], 24) << "two tokens are prefill's";
  EXPECT_EQ(reply.events.back()["usage"]["lynx"]["remapped_share"], 0.25);
  EXPECT_TRUE(reply.done_event);
  rig.until([&] { return rig.all_idle(); });
}

TEST(RouterService, AFrozenDecodeWorkerIsFoundByItsSilence) {
  RouterRig rig([](RouterConfig& config) { config.heartbeat_timeout = milliseconds(300); });
  rig.add_pair();
  rig.script(std::string(400, 'a'));
  const auto& reply = rig.post(body(400, true));
  rig.until([&] { return reply.events.size() > 3; });
  rig.add(proto::Role::DECODE, "d2");
  rig.fleet.decode.at("d")->freeze();
  rig.until_over(reply);
  EXPECT_EQ(reply.text(), std::string(400, 'a'));
}

// Field report 5.
TEST(RouterService, AClientThatHangsUpFreesEverythingInEveryPhase) {
  enum Phase { kQueued, kReserving, kPrefilling, kDecoding };
  for (const Phase phase : {kQueued, kReserving, kPrefilling, kDecoding}) {
    SCOPED_TRACE(phase);
    RouterRig rig;
    StubWorker::Hooks decode_hooks;
    StubWorker::Hooks prefill_hooks;
    if (phase == kReserving) decode_hooks.on_reserve = [](proto::Reserve::Reader) { return true; };
    if (phase == kPrefilling) prefill_hooks.on_prefill = [](proto::Prefill::Reader) { return true; };
    StubWorker& prefill = rig.add(proto::Role::PREFILL, "p", nullptr, prefill_hooks);
    StubWorker* decode = nullptr;
    decode_hooks.on_token = [](std::uint64_t, std::uint32_t index) { return index > 3; };
    if (phase == kQueued)
      decode_hooks.on_reserve = [&](proto::Reserve::Reader reserve) {
        decode->send_busy(reserve.getRequest(), 5000);
        return true;
      };
    decode = &rig.add(proto::Role::DECODE, "d", nullptr, decode_hooks);
    rig.until([&] { return rig.router->dispatcher().ready(); });
    auto& reply = rig.post(body(20, true));
    const auto& dispatcher = rig.router->dispatcher();
    rig.until([&] {
      switch (phase) {
        case kQueued:
          return dispatcher.queued() == 1;
        case kReserving:
          return decode->holding() == 1;
        case kPrefilling:
          return prefill.holding() == 1;
        case kDecoding:
          return reply.events.size() == 4;
      }
      return false;
    });
    rig.hang_up(reply);
    rig.until([&] { return rig.all_idle(); });
  }
}

// Field report 11.
TEST(RouterService, ABurstOf28LandsEvenly) {
  for (const char* policy : {"round_robin", "least_loaded"}) {
    RouterRig rig([&](RouterConfig& config) { config.policy = policy; });
    std::vector<StubWorker*> workers;
    for (const char* name : {"p0", "p1", "p2"}) workers.push_back(&rig.add(proto::Role::PREFILL, name));
    for (const char* name : {"d0", "d1", "d2", "d3"}) workers.push_back(&rig.add(proto::Role::DECODE, name));
    rig.until([&] { return rig.router->dispatcher().workers().all().size() == 7; });
    std::vector<const ApiExchange*> replies;
    for (int i = 0; i < 28; ++i) replies.push_back(&rig.post(body(2 + i % 20)));
    rig.until([&] { return std::all_of(replies.begin(), replies.end(), [](auto* r) { return r->over; }); });
    for (const std::size_t first : {0U, 3U}) {  // per role
      const auto last = first == 0 ? 3U : 7U;
      const auto less = [](const StubWorker* a, const StubWorker* b) { return a->served() < b->served(); };
      const auto [low, high] = std::minmax_element(workers.begin() + first, workers.begin() + last, less);
      EXPECT_LE(static_cast<double>((*high)->served()), 1.5 * static_cast<double>((*low)->served()))
          << policy;
    }
  }
}

// Field report 10.
TEST(RouterService, OverloadIs429WithRetryAfterAndNeverAHang) {
  RouterRig rig([](RouterConfig& config) {
    config.prefill_slots = 1;
    config.max_choices = 2;
    for (auto& slo_class : config.slo_classes) slo_class.queue_limit = 2;
  });
  StubWorker::Hooks stuck;
  stuck.on_prefill = [](proto::Prefill::Reader) { return true; };
  rig.add(proto::Role::PREFILL, "p", nullptr, stuck);
  rig.add(proto::Role::DECODE, "d");
  rig.until([&] { return rig.router->dispatcher().ready(); });
  rig.post(body(4));
  rig.until([&] { return rig.router->dispatcher().live() == 1; });
  rig.post(body(4));
  rig.post(body(4));
  rig.until([&] { return rig.router->dispatcher().queued() == 2; });
  const auto& refused = rig.post(body(4));
  rig.until_over(refused);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error_code(), "overloaded");
  const int wait = std::stoi(refused.headers.at("retry-after"));
  EXPECT_GE(wait, 1);
  EXPECT_LE(wait, 60);
  json other = body(4);
  other["slo_class"] = "batch";
  rig.post(other);
  rig.until([&] { return rig.router->dispatcher().queued() == 3; });
}

// Field report 10.
TEST(RouterService, DeadlinesEndRequestsBeforeAndAfterTheFirstToken) {
  RouterRig rig([](RouterConfig& config) {
    for (auto& slo_class : config.slo_classes) slo_class.deadline = milliseconds(150);
  });
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t) { return true; };
  rig.add(proto::Role::DECODE, "d", nullptr, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& whole = rig.post(body(4));
  const auto& streamed = rig.post(body(4, true));
  rig.until([&] { return whole.over && streamed.over; }, milliseconds(1000));
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.error_code(), "deadline_exceeded");
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.error_code(), "deadline_exceeded");
  EXPECT_TRUE(streamed.done_event);
  rig.until([&] { return rig.all_idle(); });
}

// Field report 7.
TEST(RouterService, WithoutAFittingPairTheAnswerIs503AtOnce) {
  RouterRig rig;
  const auto& nobody = rig.post(body(4));
  rig.until([&] { return nobody.over; }, milliseconds(1000));
  EXPECT_EQ(nobody.status, 503);
  const auto& not_ready = rig.get("/health/ready");
  const auto& live = rig.get("/health/live");
  rig.until([&] { return not_ready.over && live.over; });
  EXPECT_EQ(not_ready.status, 503);
  EXPECT_EQ(live.status, 200) << "alive, though not ready";

  rig.add(proto::Role::PREFILL, "p", [](StubOptions& options) { options.kv_fingerprint = 0xA; });
  rig.add(proto::Role::DECODE, "d", [](StubOptions& options) { options.kv_fingerprint = 0xB; });
  const auto refused = [&] {
    return rig.router->dispatcher().why_not_ready().find("refused") != std::string::npos;
  };
  rig.until(refused);
  const auto& misfit = rig.post(body(4));
  rig.until([&] { return misfit.over; }, milliseconds(1000));
  EXPECT_EQ(misfit.status, 503);
  EXPECT_NE(misfit.body.find("000000000000000a"), std::string::npos) << misfit.body;
  EXPECT_NE(misfit.body.find("000000000000000b"), std::string::npos);
}

TEST(RouterService, BadRequestsNameTheField) {
  RouterRig rig;
  rig.add_pair();
  const auto expect = [&](const json& request, int status, const std::string& param) {
    const auto& reply = rig.post(request);
    rig.until_over(reply);
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.reply()["error"]["param"], param);
  };
  expect({{"prompt", "x"}, {"temprature", 1}}, 400, "temprature");
  expect({{"prompt", "x"}, {"max_tokens", 2048}}, 400, "max_tokens");
  expect({{"prompt", std::string(3000, 'x')}}, 400, "prompt");
  expect({{"prompt", "x"}, {"slo_class", "gold"}}, 400, "slo_class");
  expect({{"prompt", "x"}, {"model", "gpt-4"}}, 404, "model");
  const auto& broken = rig.post_raw("{\"prompt\":", "/v1/completions");
  const auto& nowhere = rig.post_raw("{}", "/v1/embeddings");
  rig.until([&] { return broken.over && nowhere.over; });
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(nowhere.status, 404);
  EXPECT_TRUE(rig.all_idle());
}

TEST(RouterService, ApiKeysGuardTheApiAndNothingElse) {
  const std::string keys = ::testing::TempDir() + "/router_keys";
  std::ofstream(keys) << "# ours\nsesame\n\nopen\n";
  RouterRig rig([&](RouterConfig& config) { config.api_keys_file = keys; });
  rig.add_pair();
  const auto status = [&](const std::string& header) {
    const auto& reply = rig.post_raw(body(1).dump(), "/v1/completions", {{"authorization", header}});
    rig.until_over(reply);
    return reply.status;
  };
  EXPECT_EQ(status("Bearer sesame"), 200);
  EXPECT_EQ(status("Bearer open"), 200);
  EXPECT_EQ(status("Bearer sesam"), 401);
  EXPECT_EQ(status("Bearer # ours"), 401);
  EXPECT_EQ(status("sesame"), 401);
  const auto& health = rig.get("/health/ready");
  rig.until_over(health);
  EXPECT_EQ(health.status, 200);
}

TEST(RouterService, ModelsVersionAndMetricsAnswer) {
  RouterRig rig;
  rig.add_pair();
  rig.until_over(rig.post(body(5, true)));
  const auto& models = rig.get("/v1/models");
  const auto& version = rig.get("/version");
  const auto& metrics = rig.get("/metrics");
  rig.until([&] { return models.over && version.over && metrics.over; });
  EXPECT_EQ(models.reply()["data"][0]["id"], "stub");
  EXPECT_EQ(models.reply()["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(version.reply()["service"], "router");
  for (const char* line :
       {"lynx_ttft_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_itl_seconds_count{model=\"stub\",slo_class=\"standard\"} 4",
        "lynx_tpot_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_e2e_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_queue_seconds_count{model=\"stub\",slo_class=\"standard\"} 1",
        "lynx_requests_total{model=\"stub\",code=\"200\"} 1",
        "lynx_slo_requests_total{model=\"stub\",met=\"true\",objective=\"all\",slo_class=\"standard\"} 1",
        "lynx_selected_total{model=\"stub\",policy=\"least_loaded\",worker=\"d\"} 1",
        "lynx_kv_transfer_seconds_count{model=\"stub\"} 1",
        "lynx_queue_depth{model=\"stub\",slo_class=\"standard\"} 0", "lynx_retries_total{model=\"stub\"} 0",
        "lynx_resumes_total{model=\"stub\"} 0",
        "lynx_slo_objective_seconds{model=\"stub\",objective=\"ttft\",slo_class=\"standard\"} 2"})
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << "\n" << metrics.body;
}

// TTFT holds the wait for a worker and the prefill, ITL what lies between the first token and the next: the
// transfer, the decode queue. Nothing is left out, and nothing is there that the client did not wait for.
// Field report 16.
TEST(RouterService, LatenciesAreMeasuredWhereTheClientSeesThem) {
  RouterRig rig;
  rig.add(proto::Role::PREFILL, "p", [](StubOptions& o) { o.prefill_time = milliseconds(60); });
  StubWorker* decode = nullptr;
  bool turned_away = false;
  StubWorker::Hooks full_at_first;
  full_at_first.on_reserve = [&](proto::Reserve::Reader reserve) {
    if (std::exchange(turned_away, true)) return false;
    decode->send_busy(reserve.getRequest(), 50);
    return true;
  };
  decode = &rig.add(
      proto::Role::DECODE, "d", [](StubOptions& o) { o.step_time = milliseconds(40); }, full_at_first);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto sent = std::chrono::steady_clock::now();
  rig.until_over(rig.post(body(3, true)));
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - sent).count();
  const auto& metrics = rig.get("/metrics");
  rig.until_over(metrics);
  const auto sum = [&](const std::string& name) {
    const std::string line = "lynx_" + name + "_seconds_sum{model=\"stub\",slo_class=\"standard\"} ";
    const std::size_t at = metrics.body.find(line);
    return at == std::string::npos ? -1.0 : std::stod(metrics.body.substr(at + line.size()));
  };
  EXPECT_GE(sum("ttft"), 0.110);
  EXPECT_GE(sum("itl"), 0.040);  // the stub steps on a beat of its own: one whole step at least
  EXPECT_GE(sum("e2e") + 1e-6, sum("ttft") + sum("itl"));
  EXPECT_LE(sum("e2e"), waited);
}

TEST(RouterService, DrainingFinishesWhatIsUnderWayAndRefusesTheRest) {
  RouterRig rig;
  rig.add_pair();
  rig.script(std::string(100, 'a'));
  const auto& running = rig.post(body(100, true));
  rig.until([&] { return running.events.size() > 2; });
  bool stopped = false;
  rig.router->drain([&] { stopped = true; });
  const auto& refused = rig.post(body(1));
  const auto& ready = rig.get("/health/ready");
  rig.until([&] { return stopped; });
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(running.text(), std::string(100, 'a'));
  EXPECT_TRUE(running.done_event);
}

TEST(RouterService, TheGracePeriodEndsADrain) {
  RouterRig rig([](RouterConfig& config) { config.shutdown_grace = milliseconds(100); });
  rig.add(proto::Role::PREFILL, "p");
  StubWorker::Hooks slow;
  slow.on_token = [](std::uint64_t, std::uint32_t) { return true; };
  rig.add(proto::Role::DECODE, "d", nullptr, slow);
  rig.until([&] { return rig.router->dispatcher().ready(); });
  const auto& endless = rig.post(body(100, true));
  rig.until([&] { return endless.events.size() == 1; });
  bool stopped = false;
  rig.router->drain([&] { stopped = true; });
  rig.until([&] { return stopped && endless.over; }, milliseconds(1000));
  EXPECT_EQ(endless.error_code(), "no_workers");
}

}  // namespace
}  // namespace lynx::testing
