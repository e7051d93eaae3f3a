// A whole replay over real sockets against a small server that speaks the API.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/net/http_server.h"
#include "loadtest/replay/passages.h"
#include "loadtest/replay/replay.h"
#include "tests/support/patience.h"

namespace lynx {
namespace {

using namespace std::chrono_literals;

std::size_t count_words(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' '));
}

// Streams max_tokens pieces at once. Prompts are kept to look at.
class FakeServer {
 public:
  explicit FakeServer(EventLoop& loop)
      : server_(loop, {},
                [this](HttpRequest r, std::shared_ptr<HttpResponder> out) { handle(r, std::move(out)); }) {}

  std::uint16_t port() const { return server_.port(); }

  std::vector<nlohmann::json> bodies;
  int not_ready = 0;       // so many /health/ready answers are 503
  int refuse_every = 0;    // every n-th completion is a 429
  bool hang = false;       // completions are never answered
  int awaits_scrapes = 0;  // the last of `completions` is answered after so many
  std::size_t completions = 0;

  bool holds_second_scrape = false;  // until let_scrape_go()
  void let_scrape_go() {
    holds_second_scrape = false;
    if (scrape_) std::exchange(scrape_, nullptr)();
  }

 private:
  void handle(const HttpRequest& request, std::shared_ptr<HttpResponder> out) {
    if (request.path == "/health/ready") return answer(*out, not_ready-- > 0 ? 503 : 200, "{}");
    if (request.path == "/v1/models") return answer(*out, 200, R"({"data":[{"id":"fake-model"}]})");
    if (request.path == "/metrics") return answer_scrape(std::move(out));
    const auto body = nlohmann::json::parse(request.body);
    bodies.push_back(body);
    if (hang) return hanging_.push_back(std::move(out));
    if (refuse_every > 0 && bodies.size() % static_cast<std::size_t>(refuse_every) == 0)
      return answer(*out, 429, R"({"error":{"message":"full"}})");
    last_ = [body, out] { stream(body, *out); };
    answer_last();
  }
  void answer_last() {
    const bool waits = bodies.size() == completions && scrapes_ < awaits_scrapes;
    if (last_ && !waits) std::exchange(last_, nullptr)();
  }

  void answer_scrape(std::shared_ptr<HttpResponder> out) {
    scrape_ = [out = std::move(out), text = metrics()] { answer(*out, 200, text); };
    if (++scrapes_ != 2 || !holds_second_scrape) std::exchange(scrape_, nullptr)();
    answer_last();
  }

  static void answer(HttpResponder& out, int status, std::string body) {
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    out.respond(std::move(response));
  }

  static void stream(const nlohmann::json& body, HttpResponder& out) {
    out.begin_stream(200, "text/event-stream");
    const int tokens = body["max_tokens"];
    for (int i = 0; i < tokens; ++i) out.write("data: {\"choices\":[{\"text\":\"x\"}]}\n\n");
    const nlohmann::json usage{{"prompt_tokens", count_words(body["prompt"].get<std::string>())},
                               {"completion_tokens", tokens}};
    out.write("data: " + nlohmann::json{{"choices", nlohmann::json::array()}, {"usage", usage}}.dump() +
              "\n\ndata: [DONE]\n\n");
    out.finish();
  }

  std::string metrics() {
    steps_ += 100;
    const auto n = std::to_string(steps_);
    return "lynx_step_seconds_count{phase=\"decode\"} " + n +
           "\nlynx_unique_experts_count{stage=\"routed\"} " + n +
           "\nlynx_unique_experts_sum{stage=\"routed\"} " + n +
           "0\nlynx_unique_experts_count{stage=\"activated\"} " + n +
           "\nlynx_unique_experts_sum{stage=\"activated\"} " + n + "\n";
  }

  std::vector<std::shared_ptr<HttpResponder>> hanging_;
  int steps_ = 0;
  int scrapes_ = 0;
  std::function<void()> scrape_, last_;  // answers that are held back
  HttpServer server_;
};

class ReplayRun : public ::testing::Test {
 protected:
  ReplayPlan plan(std::size_t requests) {
    ReplayPlan p{
        .target = {"127.0.0.1", server_.port()}, .metrics = {}, .driver = {}, .workload = {}, .facts = {}};
    p.facts.slos = {{.name = "interactive", .share = 1, .ttft = kPatience, .tpot = kPatience}};
    p.driver.timeout = kPatience;
    for (std::size_t i = 0; i < requests; ++i) {
      PlannedRequest r;
      r.at = i * 2ms;
      r.input_tokens = 30;
      r.output_tokens = 5;
      r.seed = i;
      p.workload.requests.push_back(r);
    }
    return p;
  }

  // `then` comes once, when so many have been completed.
  Result<Report> run(ReplayPlan p, std::size_t completed = 0, std::function<void()> then = nullptr) {
    if (then) p.progress = 2ms;
    replay_ = std::make_unique<Replay>(loop_, clock_, std::move(p), writer_, [&](const LiveFrame& frame) {
      frames_.push_back(frame);
      if (then && frame.progress.completed == completed) loop_.post(std::exchange(then, nullptr));
    });
    Result<Report> out = Error{ErrorCode::kInternal, "the test took too long"};
    const auto guard = loop_.after(kPatience, [this] { loop_.stop(); });
    replay_->start([&] { replay_->begin(); },
                   [&](Result<Report> report) {
                     out = std::move(report);
                     loop_.stop();
                   });
    loop_.run();
    return out;
  }

  EventLoop loop_;
  SteadyClock clock_;
  FakeServer server_{loop_};
  PromptWriter writer_{default_passages(), count_words};
  std::unique_ptr<Replay> replay_;
  std::vector<LiveFrame> frames_;
};

TEST_F(ReplayRun, EveryRequestIsSentAndCounted) {
  server_.not_ready = 2;
  server_.completions = 50;
  server_.awaits_scrapes =
      4;  // one before the run, and two whose samples are taken when the next is asked for
  auto p = plan(50);
  p.metrics = {{"127.0.0.1", server_.port()}};
  p.progress = 20ms;
  p.sample = 20ms;
  const auto report = run(std::move(p));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->completed, 50u) << report_text(*report);
  EXPECT_EQ(report->facts.model, "fake-model");
  EXPECT_EQ(report->output_tokens, 250u);
  EXPECT_EQ(report->input_tokens, 1500u) << "the server counts what was asked for";
  EXPECT_EQ(report->met(), 50u);
  EXPECT_GE(report->facts.duration_s, 0.098) << "open loop: the last is sent at 98 ms";
  EXPECT_EQ(report->workers.routed_mean, 10);
  EXPECT_EQ(report->workers.activated_mean, 1);
  ASSERT_FALSE(frames_.empty());
  EXPECT_EQ(frames_.back().progress.completed, 50u);
  EXPECT_EQ(frames_.back().recent.met, 50u);
  EXPECT_GT(frames_.back().recent.ttft_p99_ms, 0);
  ASSERT_EQ(replay_->workers().size(), 1u);
  EXPECT_GE(replay_->workers()[0].samples.size(), 2u);
  EXPECT_TRUE(replay_->workers()[0].decodes());
  ASSERT_EQ(server_.bodies.size(), 50u);
  const auto& body = server_.bodies[0];
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["slo_class"], "interactive");
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_FALSE(body.contains("lynx")) << "other servers refuse what they do not know";
}

TEST_F(ReplayRun, ReceiptsAreAskedForWhereWanted) {
  auto p = plan(1);
  p.driver.receipts = true;
  ASSERT_TRUE(run(std::move(p)).ok());
  ASSERT_EQ(server_.bodies.size(), 1u);
  EXPECT_EQ(server_.bodies[0]["lynx"]["receipt"], true);
}

TEST_F(ReplayRun, TheWarmUpIsSentButNotJudged) {
  auto p = plan(50);
  p.metrics = {{"127.0.0.1", server_.port()}};
  p.driver.warm_up = 40ms;
  p.facts.warm_up_s = 0.04;
  const auto report = run(std::move(p));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(server_.bodies.size(), 50u);
  EXPECT_EQ(report->warm_up_requests, 20u);
  EXPECT_EQ(report->requests, 30u);
  EXPECT_EQ(report->workers.layer_steps, 100) << "the workers' figures begin with the second scrape";
}

TEST_F(ReplayRun, ARunThatEndsDuringTheScrapeAfterItsWarmUpWaitsForIt) {
  server_.holds_second_scrape = true;
  auto p = plan(20);
  p.metrics = {{"127.0.0.1", server_.port()}};
  p.driver.warm_up = 20ms;
  p.facts.warm_up_s = 0.02;
  const auto report = run(std::move(p), 20, [this] { server_.let_scrape_go(); });
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->facts.metrics_problems.empty());
  EXPECT_EQ(report->workers.layer_steps, 100) << "what the warm-up took is no part of it";
}

TEST_F(ReplayRun, RefusalsAreFailuresByCause) {
  server_.refuse_every = 5;
  const auto report = run(plan(20));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->completed, 16u);
  EXPECT_EQ(report->failures.at("http_429"), 4u);
  EXPECT_EQ(report->met(), 16u);
}

TEST_F(ReplayRun, AServerThatNeverAnswersEndsAtTheDeadline) {
  server_.hang = true;
  auto p = plan(3);
  p.driver.timeout = 100ms;
  const auto report = run(std::move(p));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->completed, 0u);
  EXPECT_EQ(report->failures.at("timeout"), 3u);
}

TEST_F(ReplayRun, AnInterruptedRunReportsWhatItSent) {
  auto p = plan(3);
  p.workload.requests.back().at = 1h;
  const auto report = run(std::move(p), 2, [this] { replay_->interrupt(); });
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->facts.interrupted);
  EXPECT_EQ(report->requests, 2u);
  EXPECT_EQ(report->completed, 2u);
}

TEST_F(ReplayRun, AServerThatIsNeverReadyIsAnErrorInTime) {
  server_.not_ready = 1'000'000;
  auto p = plan(1);
  p.ready_timeout = 300ms;
  const auto report = run(std::move(p));
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("/health/ready says 503"), std::string::npos)
      << report.error().message;
}

TEST_F(ReplayRun, NobodyListeningIsAnErrorInTime) {
  auto p = plan(1);
  p.target.port = 1;
  p.ready_timeout = 300ms;
  const auto report = run(std::move(p));
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("127.0.0.1:1: not ready"), std::string::npos)
      << report.error().message;
}

TEST_F(ReplayRun, AWorkerThatCannotBeScrapedIsNamed) {
  auto p = plan(2);
  p.metrics = {{"127.0.0.1", 1}};
  const auto report = run(std::move(p));
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->facts.metrics_problems.size(), 1u);
  EXPECT_NE(report->facts.metrics_problems[0].find("127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace lynx
