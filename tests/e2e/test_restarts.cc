// Field report 3: a worker that restarts has the same name and address, and nothing else of its former life.
// Each worker in turn is killed and started again, time after time, in the middle of streams; its peers live
// through all of it as one process each, serve meanwhile, and work with every new life.
#include <gtest/gtest.h>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/resumed_stream.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;

const int kRestarts = slowdown() > 1 ? 4 : 20;
constexpr int kTokens = 40;

StreamCall story() {
  StreamCall call;
  call.body = {{"model", "model"},   {"prompt", "Once upon a time there was"},
               {"temperature", 0},   {"max_tokens", kTokens},
               {"stream", true},     {"stream_options", {{"include_usage", true}}},
               {"ignore_eos", true}, {"logprobs", kRivals}};
  return call;
}

// Policy off: a text then hangs on its prompt alone, so it must go on the same whatever happens to workers.
class Restarts : public ::testing::Test {
 protected:
  static ClusterOptions options() {
    ClusterOptions out;
    out.prefills = 2;
    out.policy = "off";
    return out;
  }

  void restart_time_after_time(Worker& victim) {
    const StreamOutcome expected = run_streams(cluster_.api_port(), {story()}).front();
    ASSERT_FALSE(expected.text.empty());
    std::size_t same = 0;
    for (int i = 0; i < kRestarts; ++i) {
      SCOPED_TRACE(victim.name + ", restart " + std::to_string(i));
      const auto again = [&] { cluster_.restart(victim); };
      const std::vector<StreamCall> calls(6, story());
      const auto kill_at = milliseconds((3 + i) * slowdown());  // in prefill, in transfer, in decode
      for (const StreamOutcome& stream : run_streams(cluster_.api_port(), calls, {{kill_at, again}})) {
        ASSERT_TRUE(stream.finished_well()) << stream.error_message;
        EXPECT_EQ(stream.completion_tokens, kTokens);
        EXPECT_TRUE(goes_on_as(expected, stream));
        same += same_to_the_end(expected, stream) ? 1 : 0;
      }
      if (victim.lives.size() < static_cast<std::size_t>(i) + 2) again();  // they were over before
      ASSERT_TRUE(cluster_.wait_ready(std::chrono::seconds(20 * slowdown())));
      for (const StreamOutcome& stream : run_streams(cluster_.api_port(), calls))
        EXPECT_EQ(stream.text, expected.text) << stream.error_message;
      EXPECT_GT(Cluster::metric(victim, "lynx_step_seconds_count"), 0) << "the new life works, too";
    }
    EXPECT_GT(same, 0u) << "near rivals everywhere: nothing was compared";
    EXPECT_GT(Cluster::metric(cluster_.router(), "lynx_retries_total") +
                  Cluster::metric(cluster_.router(), "lynx_resumes_total"),
              0)
        << "no kill hit a request";
    for (Worker* worker : cluster_.workers()) {
      EXPECT_TRUE(worker->process().running()) << worker->name;
      EXPECT_EQ(worker->lives.size(), worker == &victim ? kRestarts + 1U : 1U) << worker->name;
    }
    EXPECT_TRUE(cluster_.router().process().running());
    EXPECT_TRUE(cluster_.all_free(std::chrono::seconds(20 * slowdown())));
  }

  Cluster cluster_{options()};
};

TEST_F(Restarts, ADecodeWorkerRestartsTimeAfterTime) { restart_time_after_time(cluster_.decode(0)); }

TEST_F(Restarts, APrefillWorkerRestartsTimeAfterTime) { restart_time_after_time(cluster_.prefill(0)); }

}  // namespace
}  // namespace lynx::testing
