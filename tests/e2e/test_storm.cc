// 300 requests, a third of the clients hang up at any time, and on the way one worker of each kind is killed
// and started again. No request hangs past its deadline, the others finish right, and every ledger ends
// all-free.
#include <gtest/gtest.h>

#include <random>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/conditions.h"
#include "tests/e2e/request_mix.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A sanitizer makes the model ten times slower: there a part of them must do.
const std::size_t kRequests = slowdown() > 1 ? 100 : 300;

std::vector<StreamCall> stormy_calls(const Tokenizer& tokenizer, milliseconds span) {
  const auto requests = mixed_requests(tokenizer, kRequests, 1200, 300, 11);
  std::mt19937_64 random(13);
  std::vector<StreamCall> calls;
  for (const MixedRequest& request : requests) {
    StreamCall call;
    call.body = {{"model", "model"},
                 {"prompt", request.prompt},
                 {"max_tokens", request.max_tokens},
                 {"temperature", 0},
                 {"ignore_eos", true},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    call.start_after = milliseconds(random() % static_cast<std::uint64_t>(span.count()));
    // From before the request is queued to long after its first tokens: every phase is hit.
    if (random() % 3 == 0)
      call.hang_up_after = milliseconds(random() % static_cast<std::uint64_t>(200 * slowdown()));
    call.timeout = 3 * kPatience;
    calls.push_back(std::move(call));
  }
  return calls;
}

// Field reports 1 and 5, with whole processes.
TEST(Storm, AbortsAndKillsLeaveNothingBehind) {
  const Tokenizer tokenizer = Tokenizer::from_file(model_folder() + "/tokenizer.json");
  ClusterOptions options;
  options.prefills = 2;
  constexpr auto deadline = 2 * kPatience;
  options.router_flags = {
      "--slo.standard.deadline", std::to_string(std::chrono::seconds(deadline).count()) + "s",
      "--slo.standard.queue_timeout", std::to_string(std::chrono::seconds(deadline).count()) + "s"};
  Cluster cluster(options);

  const milliseconds span(slowdown() > 1 ? 16'000 : 8000);
  const auto calls = stormy_calls(tokenizer, span);
  const auto began = steady_clock::now();
  const auto streams = run_streams(
      cluster.api_port(), calls,
      {{span / 4, [&] { cluster.kill(cluster.decode(0)); }, has_blocks(cluster.decode(0), "active")},
       {span / 3, [&] { cluster.kill(cluster.prefill(0)); }},
       {span / 2, [&] { cluster.restart(cluster.decode(0)); }},
       {span * 3 / 5, [&] { cluster.restart(cluster.prefill(0)); }}});

  std::size_t dropped = 0, well = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const StreamOutcome& stream = streams[i];
    if (stream.dropped) {
      ++dropped;
      continue;
    }
    // The client's own time-out never fires: the router's deadline ends every request before.
    EXPECT_FALSE(stream.transport_error.has_value())
        << "request " << i << ": " << stream.transport_error->message;
    EXPECT_LT(stream.ended - began - calls[i].start_after, deadline + kPatience / 4);
    ASSERT_TRUE(stream.finished_well())
        << "request " << i << " " << stream.status << " " << stream.error_message;
    EXPECT_EQ(stream.completion_tokens, calls[i].body["max_tokens"].get<int>()) << "request " << i;
    EXPECT_EQ(stream.finish_reason, "length");
    ++well;
  }
  EXPECT_GT(dropped, kRequests / 10);
  EXPECT_GT(well, kRequests / 2);
  EXPECT_TRUE(cluster.all_free(std::chrono::seconds(40 * slowdown())))
      << Cluster::debug_kv(cluster.decode(0)) << Cluster::debug_kv(cluster.decode(1))
      << Cluster::debug_kv(cluster.prefill(0)) << Cluster::debug_kv(cluster.prefill(1));
  EXPECT_GT(cluster.taken_up(), 0);
}

}  // namespace
}  // namespace lynx::testing
