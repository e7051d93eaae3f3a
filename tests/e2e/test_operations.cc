// What an operator relies on: three probes of three meanings, a drain that loses nothing, pairs that do not
// fit are told so.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/conditions.h"
#include "tests/e2e/resumed_stream.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

nlohmann::json long_completion(int tokens) {
  return {{"model", "model"},
          {"prompt", "Once upon a time"},
          {"max_tokens", tokens},
          {"temperature", 0},
          {"ignore_eos", true},
          {"stream", true},
          {"stream_options", {{"include_usage", true}}}};
}

// Field report 17: a start that is over, a loop that turns, and a pair that serves are three things.
TEST(Operations, ReadyMeansAPairIsThereAndLiveMeansTheLoopTurns) {
  ClusterOptions options;
  options.decodes = 1;
  Cluster cluster(options);
  EXPECT_EQ(get(cluster.api_port(), "/health/live").status, 200);
  EXPECT_EQ(get(cluster.api_port(), "/health/ready").status, 200);

  cluster.kill(cluster.decode(0));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (get(cluster.api_port(), "/health/ready").status == 200 &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(get(cluster.api_port(), "/health/ready").status, 503);
  EXPECT_EQ(get(cluster.api_port(), "/health/live").status, 200);
  EXPECT_EQ(get(cluster.api_port(), "/health/startup").status, 200);
  EXPECT_EQ(get(cluster.prefill(0).http_port, "/health/startup").status, 200);
  EXPECT_EQ(get(cluster.prefill(0).http_port, "/health/ready").status, 200);

  cluster.restart(cluster.decode(0));
  EXPECT_TRUE(cluster.wait_ready(std::chrono::seconds(20 * slowdown())));
}

// Half of the streams keep all their experts and so hang on their prompt alone; the others are remapped.
TEST(Operations, AStreamOutlivesItsDecodeWorker) {
  Cluster cluster({});
  StreamCall call;
  call.body = long_completion(300);
  call.body["logprobs"] = kRivals;
  std::vector<StreamCall> calls(8, call);
  const auto exact = [](std::size_t i) { return i % 4 < 2; };  // on both workers
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].body["lynx"]["exact"] = exact(i);
  call.body["lynx"]["exact"] = true;
  const auto undisturbed = run_streams(cluster.api_port(), {call}).front();
  ASSERT_TRUE(undisturbed.finished_well()) << undisturbed.error_message;

  const auto streams =
      run_streams(cluster.api_port(), calls,
                  {{{}, [&] { cluster.kill(cluster.decode(0)); }, has_stepped(cluster.decode(0), 50)}});
  std::size_t same = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    ASSERT_TRUE(streams[i].finished_well()) << streams[i].error_message;
    EXPECT_EQ(streams[i].completion_tokens, 300);
    if (exact(i)) {
      EXPECT_TRUE(goes_on_as(undisturbed, streams[i])) << "stream " << i;
      same += same_to_the_end(undisturbed, streams[i]) ? 1 : 0;
    }
  }
  EXPECT_GT(same, 0u) << "near rivals everywhere: nothing was compared";
  EXPECT_GT(cluster.taken_up(), 0);
}

// Field report 18.
TEST(Operations, ADrainedWorkerFinishesWhatItHasAndExitsZero) {
  Cluster cluster({});
  StreamCall call;
  call.body = long_completion(200);
  std::vector<StreamCall> calls(6, call);
  const auto streams = run_streams(
      cluster.api_port(), calls,
      {{{}, [&] { cluster.decode(0).process().signal(SIGTERM); }, has_stepped(cluster.decode(0), 30)}});
  for (const StreamOutcome& stream : streams)
    EXPECT_EQ(stream.completion_tokens, 200) << stream.error_message;
  EXPECT_EQ(cluster.decode(0).process().wait(std::chrono::seconds(20 * slowdown())), 0);

  cluster.prefill(0).process().signal(SIGTERM);
  EXPECT_EQ(cluster.prefill(0).process().wait(std::chrono::seconds(20 * slowdown())), 0);
  cluster.router().process().signal(SIGTERM);
  EXPECT_EQ(cluster.router().process().wait(std::chrono::seconds(20 * slowdown())), 0);
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Every different fingerprint of a KV layout that the text names.
std::set<std::string> layouts_in(const std::string& text) {
  static const std::regex kLayout("kv_layout ([0-9a-f]{16})");
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), kLayout), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

// Field report 7: the worker with the wrong setting is refused when it connects; its own probe and log, the
// router's probe and log, and the answer to a request all name both fingerprints, and at once.
TEST(Operations, LayoutsThatDoNotFitAreRefusedAtConnectAndToldWithinASecond) {
  ClusterOptions options;
  options.decodes = 1;
  Cluster cluster(options);
  cluster.kill(cluster.decode(0));
  Worker& odd = cluster.decode(0);
  for (const char* word : {"--kv.block_tokens", "32"}) odd.argv.emplace_back(word);
  cluster.restart(odd);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10 * slowdown());
  ApiReply probe;
  const auto told = [&] { return probe.status == 503 && probe.body.find("refused") != std::string::npos; };
  while (!told() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(20));
    probe = get(odd.http_port, "/health/ready");
  }
  EXPECT_EQ(probe.status, 503);
  const std::set<std::string> both = layouts_in(probe.body);
  EXPECT_EQ(both.size(), 2U) << probe.body;
  EXPECT_EQ(get(odd.http_port, "/health/live").status, 200) << "a restart would not help";

  const auto began = std::chrono::steady_clock::now();
  nlohmann::json body = long_completion(4);
  body["stream"] = false;
  body.erase("stream_options");
  const ApiReply reply = post(cluster.api_port(), "/v1/completions", body);
  EXPECT_EQ(reply.status, 503) << reply.body;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(slowdown()));
  EXPECT_EQ(layouts_in(reply.body), both) << reply.body;
  EXPECT_EQ(layouts_in(get(cluster.api_port(), "/health/ready").body), both);
  for (Worker* worker : {&cluster.router(), &odd})
    EXPECT_EQ(layouts_in(contents(worker->process().log_file())), both) << worker->name;

  odd.argv.resize(odd.argv.size() - 2);
  cluster.restart(odd);
  ASSERT_TRUE(cluster.wait_ready(std::chrono::seconds(20 * slowdown()))) << "put right, it is let in";
  EXPECT_EQ(post(cluster.api_port(), "/v1/completions", body).status, 200);
}

TEST(Operations, AStoppedDecodeWorkerCostsAPauseNotTheRequest) {
  Cluster cluster({});
  StreamCall call;
  call.body = long_completion(100);
  std::vector<StreamCall> calls(4, call);
  const auto streams = run_streams(
      cluster.api_port(), calls,
      {{{}, [&] { cluster.decode(0).process().signal(SIGSTOP); }, has_stepped(cluster.decode(0), 10)}});
  for (const StreamOutcome& stream : streams) {
    ASSERT_TRUE(stream.finished_well()) << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, 100);
  }
  EXPECT_GT(cluster.taken_up(), 0);
}

}  // namespace
}  // namespace lynx::testing
