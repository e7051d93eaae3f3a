#include <gtest/gtest.h>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

::testing::AssertionResult shows(const MetricsRegistry& registry, const std::string& line) {
  const std::string text = registry.serialize();
  if (text.find("\n" + line + "\n") != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no line '" << line << "' in\n" << text;
}

Ask ask(std::uint64_t request) {
  Ask out;
  out.wire = {1, request};
  out.sampling.max_tokens = 6;
  out.sampling.ignore_eos = true;
  return out;
}

TEST(WorkerMetrics, BlocksOfNoRequestAreOrphans) {
  MetricsRegistry registry;
  WorkerMetrics metrics(registry, "decode");
  KvLedger ledger(16, 1);
  ASSERT_TRUE(ledger.allocate(1, 3));
  ASSERT_TRUE(ledger.allocate(2, 4));
  metrics.show_blocks(ledger, 7);
  EXPECT_TRUE(shows(registry, "lynx_kv_orphan_blocks 0"));
  EXPECT_TRUE(shows(registry, "lynx_kv_leases 2"));
  metrics.show_blocks(ledger, 3);
  EXPECT_TRUE(shows(registry, "lynx_kv_orphan_blocks 4"));
  EXPECT_TRUE(shows(registry, "lynx_kv_leases_granted_total 2"));
}

TEST(WorkerMetrics, NoBlockIsAnOrphanWhileRequestsRunAndAfter) {
  PairBench bench;
  for (std::uint64_t i = 1; i <= 3; ++i) bench.start(ask(i));
  for (int turn = 0; turn < 12; ++turn) {
    bench.turn();
    const auto taken = [](const KvLedger& ledger) { return ledger.total_blocks() - ledger.free_blocks(); };
    EXPECT_EQ(bench.decode_service.held_blocks(), taken(bench.decode_side.ledger)) << turn;
    EXPECT_EQ(bench.prefill_service.held_blocks(), taken(bench.prefill_side.ledger)) << turn;
    if (turn == 3) bench.cancel(bench.decode_service, {1, 2});
  }
  bench.run();
  EXPECT_EQ(bench.decode_service.held_blocks(), 0U);
  EXPECT_EQ(bench.prefill_service.held_blocks(), 0U);
}

TEST(WorkerMetrics, TheTransportThatIsChosenNowIsOne) {
  MetricsRegistry registry;
  WorkerMetrics metrics(registry, "prefill");
  metrics.show_transport("auto", "");
  EXPECT_EQ(registry.serialize().find("kv_transport_info"), std::string::npos);
  metrics.show_transport("auto", "tcp");
  EXPECT_TRUE(shows(registry, "lynx_kv_transport_info{allowed=\"auto\",chosen=\"tcp\"} 1"));
  metrics.show_transport("auto", "rdma");
  EXPECT_TRUE(shows(registry, "lynx_kv_transport_info{allowed=\"auto\",chosen=\"tcp\"} 0"));
  EXPECT_TRUE(shows(registry, "lynx_kv_transport_info{allowed=\"auto\",chosen=\"rdma\"} 1"));
}

TEST(WorkerMetrics, EveryDecodeStepButTheFirstIsComparedWithItsModel) {
  PairBench bench;
  bench.start(ask(1));
  bench.run();
  // Six tokens: one from prefill, five steps.
  EXPECT_TRUE(shows(bench.decode_side.registry, "lynx_step_predicted_seconds_count 4"));
  EXPECT_TRUE(shows(bench.decode_side.registry, "lynx_step_prediction_error_seconds_count 4"));
}

}  // namespace
}  // namespace lynx::testing
