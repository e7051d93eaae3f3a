// Field report 18: a worker that is told to go finishes what is under way, pushes and generations alike, and
// nobody else has to take it up. Retries and resumes stay at zero: with them, a worker that simply died would
// look the same to the client.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <utility>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/conditions.h"

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

Interruption term(Worker& victim, std::function<bool()> when) {
  return {{}, [&victim] { victim.process().signal(SIGTERM); }, std::move(when)};
}

// Long enough to be under way when the signal comes, whatever slows the machine.
int many_tokens() { return 1200 / slowdown(); }

TEST(Drain, APrefillWorkerFinishesThePushesUnderWay) {
  ClusterOptions options;
  options.prefills = 2;
  options.decodes = 1;
  options.prefill_flags = {"--prefill.chunk_tokens", "64"};  // a prompt is many pushes over many steps
  Cluster cluster(options);
  const auto streams = run_streams(cluster.api_port(), calls_of(6, completion(long_prompt(250), 20)),
                                   {term(cluster.prefill(0), has_blocks(cluster.decode(0), "receiving"))});
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, 20);
  }
  EXPECT_EQ(cluster.prefill(0).process().wait(seconds(20 * slowdown())), 0);
  EXPECT_EQ(Cluster::metric(cluster.decode(0), "lynx_kv_leases_expired_total"), 0);
  EXPECT_EQ(cluster.taken_up(), 0);
  EXPECT_TRUE(cluster.all_free(seconds(10)));
}

TEST(Drain, ADecodeWorkerFinishesItsGenerations) {
  Cluster cluster({});
  const auto streams =
      run_streams(cluster.api_port(), calls_of(6, completion("Once upon a time", many_tokens() / 2)),
                  {term(cluster.decode(0), has_blocks(cluster.decode(0), "active"))});
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens() / 2);
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(20 * slowdown())), 0);
  EXPECT_EQ(cluster.taken_up(), 0);
  EXPECT_TRUE(cluster.all_free(seconds(10)));
}

TEST(Drain, ADecodeWorkerToldToGoWhileKvArrivesStillServesIt) {
  ClusterOptions options;
  options.prefill_flags = {"--prefill.chunk_tokens", "64"};
  Cluster cluster(options);
  const auto streams = run_streams(cluster.api_port(), calls_of(6, completion(long_prompt(250), 20)),
                                   {term(cluster.decode(0), has_blocks(cluster.decode(0), "receiving"))});
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, 20);
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(20 * slowdown())), 0);
  EXPECT_EQ(cluster.taken_up(), 0);
}

// The grace period is shorter than a generation: the worker ends in time, and the stream goes on elsewhere.
TEST(Drain, AGraceTooShortCostsAPauseNotTheStream) {
  ClusterOptions options;
  options.decode_flags = {"--shutdown_grace", "100ms"};
  Cluster cluster(options);
  const auto streams =
      run_streams(cluster.api_port(), calls_of(6, completion("Once upon a time", many_tokens())),
                  {term(cluster.decode(0), has_blocks(cluster.decode(0), "active"))});
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens());
  }
  EXPECT_EQ(cluster.decode(0).process().wait(seconds(5 * slowdown())), 0);
  EXPECT_GT(cluster.taken_up(), 0);
}

TEST(Drain, ARouterFinishesItsStreamsAndTakesNoNewOnes) {
  Cluster cluster({});
  int late = 0;
  const auto term_router = [&] {
    cluster.router().process().signal(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + seconds(5 * slowdown());
    while (get(cluster.api_port(), "/health/ready").status == 200 &&
           std::chrono::steady_clock::now() < deadline) {
    }
    nlohmann::json body = completion("Too late", 4);
    body["stream"] = false;
    body.erase("stream_options");
    late = post(cluster.api_port(), "/v1/completions", body).status;
  };
  const auto streams =
      run_streams(cluster.api_port(), calls_of(4, completion("Once upon a time", many_tokens())),
                  {{{}, term_router, has_blocks(cluster.decode(0), "active")}});
  EXPECT_EQ(late, 503);
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, many_tokens());
  }
  EXPECT_EQ(cluster.router().process().wait(seconds(20 * slowdown())), 0);
}

}  // namespace
}  // namespace lynx::testing
