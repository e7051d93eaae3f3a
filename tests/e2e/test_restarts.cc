// Field report 3: a worker that restarts has the same name and address, and nothing else of its former life.
// Each worker in turn is killed and started again, time after time, in the middle of streams; its peers live
// through all of it as one process each, serve meanwhile, and work with every new life.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/conditions.h"
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

  std::vector<StreamOutcome> six_streams(const std::vector<Interruption>& during = {}) {
    return run_streams(cluster_.api_port(), std::vector<StreamCall>(6, story()), during);
  }

  // At whatever it is at after so many milliseconds: a prefill, a transfer, a decode step, nothing at all.
  std::vector<StreamOutcome> killed_at(Worker& victim, milliseconds at) {
    const std::size_t lives = victim.lives.size();
    const auto again = [&] { cluster_.restart(victim); };
    auto streams = six_streams({{at, again}});
    if (victim.lives.size() == lives) again();  // they were over before
    return streams;
  }

  // With requests that it holds for sure: it was stopped before they came, and cannot have answered.
  std::vector<StreamOutcome> killed_with_requests(Worker& victim) {
    victim.process().signal(SIGSTOP);
    return six_streams({{{}, [&] { cluster_.restart(victim); }, has_requests(cluster_, victim)}});
  }

  void restart_time_after_time(Worker& victim) {
    const StreamOutcome expected = run_streams(cluster_.api_port(), {story()}).front();
    ASSERT_FALSE(expected.text.empty());
    std::size_t same = 0;
    for (int i = 0; i < kRestarts; ++i) {
      SCOPED_TRACE(victim.name + ", restart " + std::to_string(i));
      const double before = cluster_.taken_up();
      const bool surely_hit = i % 2 == 1;
      const auto streams =
          surely_hit ? killed_with_requests(victim) : killed_at(victim, milliseconds((3 + i) * slowdown()));
      for (const StreamOutcome& stream : streams) {
        ASSERT_TRUE(stream.finished_well()) << stream.error_message;
        EXPECT_EQ(stream.completion_tokens, kTokens);
        EXPECT_TRUE(goes_on_as(expected, stream));
        same += same_to_the_end(expected, stream) ? 1 : 0;
      }
      if (surely_hit) {
        EXPECT_GT(cluster_.taken_up(), before) << "what it held was not sent again";
      }
      // With UCX 1.13 a peer may end by an assertion of UCX's instead (deploy/README.md, Troubleshoot).
      ASSERT_TRUE(cluster_.wait_ready(std::chrono::seconds(20 * slowdown()))) << cluster_.gone();
      for (const StreamOutcome& stream : six_streams())
        EXPECT_EQ(stream.text, expected.text) << stream.error_message;
      EXPECT_GT(Cluster::metric(victim, "lynx_step_seconds_count"), 0) << "the new life works, too";
    }
    EXPECT_GT(same, 0u) << "near rivals everywhere: nothing was compared";
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
