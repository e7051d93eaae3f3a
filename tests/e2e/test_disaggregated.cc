// Serving with prefill and decode apart changes no token: greedy, policy off, 200 mixed requests, against a
// run of the same model in one process.
#include <gtest/gtest.h>

#include "services/engine/moe_transformer.h"
#include "services/engine/monolith.h"
#include "tests/e2e/api_client.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/request_mix.h"
#include "tests/support/patience.h"

namespace lynx::testing {
namespace {

constexpr std::uint32_t kMaxPrompt = 700;  // several chunks of the prefill worker
constexpr std::uint32_t kMaxNew = 24;

std::vector<MonolithOutput> run_alone(const std::vector<MixedRequest>& requests) {
  ModelOptions options;
  options.backend.device = backend();
  options.max_rows = 512;
  const auto model = load_model(model_folder(), options);
  PageLayout layout = page_layout(model->config(), 1024, 16, KvDtype::kF32);
  KvCache cache(layout);
  std::vector<MonolithRequest> alone(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    alone[i].prompt = requests[i].prompt;
    alone[i].sampling.temperature = 0;
    alone[i].sampling.max_tokens = requests[i].max_tokens;
  }
  return run_monolith(*model, cache, {{16, 512}, {}}, alone);
}

StreamCall greedy_call(const MixedRequest& request) {
  StreamCall call;
  call.body = {{"model", "model"},
               {"prompt", request.prompt},
               {"max_tokens", request.max_tokens},
               {"temperature", 0},
               {"logprobs", 0},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  call.timeout = std::chrono::minutes(10);
  return call;
}

// A worker that computes on the CPU has one path, a GPU's worker that which it was told to take.
void expect_kv_path(const Worker& worker, const std::string& role) {
  std::string path = kv_path(role);
  if (backend() == "cpu") path = "host";
  if (path == "auto") path = "pinned";
  EXPECT_EQ(Cluster::metric(worker, "lynx_device_info", "kv_path=\"" + path + "\""), 1) << role;
}

void expect_equal_tokens(const std::string& transport) {
  const Tokenizer tokenizer = Tokenizer::from_file(model_folder() + "/tokenizer.json");
  // A sanitizer makes the model ten times slower: there a part of them must do.
  const std::size_t count = slowdown() > 1 ? 40 : 200;
  const auto requests = mixed_requests(tokenizer, count, kMaxPrompt, kMaxNew, 7);
  const auto alone = run_alone(requests);

  ClusterOptions options;
  options.policy = "off";
  options.transport = transport;
  options.router_flags = {"--slo.standard.queue_timeout", "10m", "--slo.standard.deadline", "10m"};
  Cluster cluster(options);
  std::vector<StreamCall> calls;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    calls.push_back(greedy_call(requests[i]));
    calls.back().start_after = std::chrono::milliseconds(10 * i * static_cast<std::size_t>(slowdown()));
  }
  const auto streams = run_streams(cluster.api_port(), calls);

  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(streams[i].finished_well()) << "request " << i << ": " << streams[i].error_message;
    ASSERT_TRUE(alone[i].status.ok()) << alone[i].status.error().message;
    std::vector<std::string> expected;
    std::vector<TokenId> ids;
    for (const SampledTokenData& token : alone[i].tokens) ids.push_back(token.token);
    EXPECT_EQ(streams[i].completion_tokens, static_cast<int>(ids.size())) << "request " << i;
    EXPECT_EQ(streams[i].tokens.size(), ids.size()) << "request " << i;
    EXPECT_EQ(streams[i].text, tokenizer.decode(ids)) << "request " << i;
  }
  EXPECT_TRUE(cluster.all_free(kPatience));
  EXPECT_GT(Cluster::metric(cluster.prefill(0), "lynx_kv_transfer_bytes_total"), 0);
  expect_kv_path(cluster.prefill(0), "prefill");
  expect_kv_path(cluster.decode(0), "decode");
}

TEST(Disaggregated, TokensEqualOneProcessOverTcp) { expect_equal_tokens("tcp"); }
TEST(Disaggregated, TokensEqualOneProcessOverSharedMemory) { expect_equal_tokens("shm"); }

}  // namespace
}  // namespace lynx::testing
