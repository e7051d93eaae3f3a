// One decode worker that answers its routers and that no KV reaches: the others carry the load, and the
// router says which one it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

// Its prefill worker pushes over TCP, and this one has shared memory alone.
void make_unreachable(Cluster& cluster, Worker& worker) {
  const auto flag = std::find(worker.argv.begin(), worker.argv.end(), "--ucx.transport");
  *std::next(flag) = "shm";
  cluster.restart(worker);
  ASSERT_TRUE(cluster.wait_ready(kPatience));
}

TEST(Unreachable, ADecodeWorkerWithoutKvCostsNoRequest) {
  ClusterOptions options;
  options.policy = "off";
  options.decode_flags = {"--max_batch", "4"};
  Cluster cluster(options);
  make_unreachable(cluster, cluster.decode(1));

  StreamCall call;
  call.body = {{"prompt", "Once upon a time there was"},
               {"temperature", 0},
               {"max_tokens", 8},
               {"stream", true},
               {"ignore_eos", true},
               {"slo_class", "batch"}};
  for (const StreamOutcome& stream : run_streams(cluster.api_port(), std::vector<StreamCall>(48, call))) {
    EXPECT_TRUE(stream.finished_well()) << stream.status << " " << stream.error_message;
  }
  EXPECT_GT(Cluster::metric(cluster.router(), "lynx_worker_put_aside_total", "decode-1"), 0);
  EXPECT_EQ(Cluster::metric(cluster.router(), "lynx_worker_put_aside_total", "decode-0"), 0);
  const auto overview = get(cluster.api_port(), "/debug/overview").json();
  const auto& workers = overview["workers"];
  EXPECT_TRUE(std::any_of(workers.begin(), workers.end(), [](const auto& worker) {
    return worker["name"] == "decode-1" && worker["put_aside"].template get<int>() > 0;
  })) << overview["workers"];
  EXPECT_TRUE(cluster.all_free(kPatience));

  // Requests that end on their first token, while their last KV is under way, leave nothing behind either.
  call.body["max_tokens"] = 1;
  for (const StreamOutcome& stream : run_streams(cluster.api_port(), std::vector<StreamCall>(24, call)))
    EXPECT_TRUE(stream.finished_well()) << stream.status << " " << stream.error_message;
  EXPECT_EQ(Cluster::metric(cluster.router(), "lynx_worker_put_aside_total", "decode-0"), 0);
  EXPECT_TRUE(cluster.all_free(kPatience));
}

// A fleet of such workers alone still says why. More tokens than attempts: each attempt may bring one, its
// prefill's.
TEST(Unreachable, WithoutAnotherTheAnswerNamesTheCause) {
  ClusterOptions options;
  options.decodes = 1;
  Cluster cluster(options);
  make_unreachable(cluster, cluster.decode(0));
  for (int i = 0; i < 2; ++i) {
    const ApiReply reply = post(cluster.api_port(), "/v1/completions",
                                {{"prompt", "Once upon a time"}, {"max_tokens", 64}, {"ignore_eos", true}});
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_NE(reply.body.find("cannot connect"), std::string::npos) << reply.body;
  }
}

}  // namespace
}  // namespace lynx::testing
