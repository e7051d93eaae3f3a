// Field report 18: a worker that is told to go finishes what is under way, pushes and generations alike, and
// nobody else has to take it up. Retries and resumes stay at zero: with them, a worker that simply died would
// look the same to the client.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <thread>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"

namespace lynx::testing {
namespace {

using std::chrono::seconds;

nlohmann::json completion(const std::string& prompt, int tokens) {
  return {{"model", "model"},
          {"prompt", prompt},
          {"max_tokens", tokens},
          {"temperature", 0},
          {"ignore_eos", true},
          {"stream", true},
          {"stream_options", {{"include_usage", true}}}};
}

std::string long_prompt(int words) {
  std::string out;
  for (int i = 0; i < words; ++i) out += "word " + std::to_string(i) + " ";
  return out;
}

std::vector<StreamCall> calls_of(int count, const nlohmann::json& body) {
  StreamCall call;
  call.body = body;
  return std::vector<StreamCall>(static_cast<std::size_t>(count), call);
}

std::uint64_t blocks_in(const Worker& worker, const char* state) {
  const auto kv = Cluster::debug_kv(worker);
  return kv.is_object() && kv.contains("states") ? kv["states"].value(state, std::uint64_t{0}) : 0;
}

// SIGTERM to the victim as soon as the watched worker has blocks in that state; `then` runs after it. Beside
// the streams: the calling thread is theirs.
class TermWhen {
 public:
  TermWhen(Worker& victim, const Worker& watched, const char* state, std::function<void()> then = {})
      : thread_([this, &victim, &watched, state, then] {
          const auto deadline = std::chrono::steady_clock::now() + seconds(20 * slowdown());
          while (blocks_in(watched, state) == 0)
            if (std::chrono::steady_clock::now() > deadline) return;
          victim.process().signal(SIGTERM);
          hit_ = true;
          if (then) then();
        }) {}
  ~TermWhen() { join(); }  // a test that gives up early does not leave it behind
  TermWhen(const TermWhen&) = delete;
  TermWhen& operator=(const TermWhen&) = delete;
  bool hit() {
    join();
    return hit_;
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  bool hit_ = false;
  std::thread thread_;
};

// Long enough to be under way when the signal comes, whatever slows the machine.
int many_tokens() { return 1200 / slowdown(); }

void expect_nothing_was_taken_up_elsewhere(Cluster& cluster) {
  EXPECT_EQ(Cluster::metric(cluster.router(), "lynx_retries_total"), 0);
  EXPECT_EQ(Cluster::metric(cluster.router(), "lynx_resumes_total"), 0);
}

TEST(Drain, APrefillWorkerFinishesThePushesUnderWay) {
  ClusterOptions options;
  options.prefills = 2;
  options.decodes = 1;
  options.prefill_flags = {"--prefill.chunk_tokens", "64"};  // a prompt is many pushes over many steps
  Cluster cluster(options);
  TermWhen term(cluster.prefill(0), cluster.decode(0), "receiving");
  const auto streams = run_streams(cluster.api_port(), calls_of(6, completion(long_prompt(250), 20)));
  ASSERT_TRUE(term.hit()) << "no push was seen under way";
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, 20);
  }
  EXPECT_EQ(cluster.prefill(0).process().wait(seconds(20 * slowdown())), 0);
  EXPECT_EQ(Cluster::metric(cluster.decode(0), "lynx_kv_leases_expired_total"), 0);
  expect_nothing_was_taken_up_elsewhere(cluster);
  EXPECT_TRUE(cluster.all_free(seconds(10)));
}

TEST(Drain, ADecodeWorkerFinishesItsGenerations) {
  Cluster cluster({});
  TermWhen term(cluster.decode(0), cluster.decode(0), "active");
  const auto streams =
      run_streams(cluster.api_port(), calls_of(6, completion("Once upon a time", many_tokens() / 2)));
  ASSERT_TRUE(term.hit()) << "no generation was seen under way";
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens() / 2);
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(20 * slowdown())), 0);
  expect_nothing_was_taken_up_elsewhere(cluster);
  EXPECT_TRUE(cluster.all_free(seconds(10)));
}

TEST(Drain, ADecodeWorkerToldToGoWhileKvArrivesStillServesIt) {
  ClusterOptions options;
  options.prefill_flags = {"--prefill.chunk_tokens", "64"};
  Cluster cluster(options);
  TermWhen term(cluster.decode(0), cluster.decode(0), "receiving");
  const auto streams = run_streams(cluster.api_port(), calls_of(6, completion(long_prompt(250), 20)));
  ASSERT_TRUE(term.hit()) << "no push was seen under way";
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, 20);
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(20 * slowdown())), 0);
  expect_nothing_was_taken_up_elsewhere(cluster);
}

// The grace period is shorter than a generation: the worker ends in time, and the stream goes on elsewhere.
TEST(Drain, AGraceTooShortCostsAPauseNotTheStream) {
  ClusterOptions options;
  options.decode_flags = {"--shutdown_grace", "100ms"};
  Cluster cluster(options);
  TermWhen term(cluster.decode(0), cluster.decode(0), "active");
  const auto streams =
      run_streams(cluster.api_port(), calls_of(6, completion("Once upon a time", many_tokens())));
  ASSERT_TRUE(term.hit());
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens());
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(5 * slowdown())), 0);
  EXPECT_GT(Cluster::metric(cluster.router(), "lynx_resumes_total"), 0);
}

TEST(Drain, ARouterFinishesItsStreamsAndTakesNoNewOnes) {
  Cluster cluster({});
  int late = 0;
  TermWhen term(cluster.router(), cluster.decode(0), "active", [&] {
    const auto deadline = std::chrono::steady_clock::now() + seconds(5 * slowdown());
    while (get(cluster.api_port(), "/health/ready").status == 200 &&
           std::chrono::steady_clock::now() < deadline) {
    }
    nlohmann::json body = completion("Too late", 4);
    body["stream"] = false;
    body.erase("stream_options");
    late = post(cluster.api_port(), "/v1/completions", body).status;
  });
  const auto streams =
      run_streams(cluster.api_port(), calls_of(4, completion("Once upon a time", many_tokens())));
  ASSERT_TRUE(term.hit());
  EXPECT_EQ(late, 503);
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens());
  }
  EXPECT_EQ(cluster.router().process().wait(seconds(20 * slowdown())), 0);
}

}  // namespace
}  // namespace lynx::testing
