#include <gtest/gtest.h>

#include "services/decode/decode_config.h"
#include "services/prefill/prefill_config.h"
#include "services/worker/memory_budget.h"
#include "services/worker/worker_config.h"

namespace lynx {
namespace {

template <typename Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(ParseRouter, HostAndPort) {
  EXPECT_EQ(parse_router("127.0.0.1:7700").host, "127.0.0.1");
  EXPECT_EQ(parse_router("127.0.0.1:7700").port, 7700);
  EXPECT_EQ(parse_router("routers.lynx.svc:80").host, "routers.lynx.svc");
  EXPECT_EQ(parse_router("[::1]:9").host, "::1");
  for (const char* wrong :
       {"", "host", "host:", ":80", "host:0", "host:70000", "host:8x", "::1:80", "[]:80", "[::1:80"})
    EXPECT_NE(error_of([&] { static_cast<void>(parse_router(wrong)); }).find("routers"), std::string::npos)
        << wrong;
}

DecodeConfig valid() {
  DecodeConfig config;
  config.worker.model_path = "/models/lynx-mini";
  return config;
}

TEST(WorkerConfig, NamesTheFieldThatIsWrong) {
  const auto field_error = [](auto change) {
    DecodeConfig config = valid();
    change(config);
    return error_of([&] { config.validate(); });
  };
  EXPECT_EQ(field_error([](auto&) {}), "");
  EXPECT_TRUE(field_error([](auto& c) { c.worker.model_path = ""; }).starts_with("model.path"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.load_format = "gguf"; }).starts_with("model.load_format"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.backend = "tpu"; }).starts_with("backend"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.routers = {}; }).starts_with("routers"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.kv_dtype = "f16"; }).starts_with("kv.dtype"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.kv_block_tokens = 0; }).starts_with("kv.block_tokens"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.kv_memory_mb = 0; }).starts_with("kv.memory_mb"));
  EXPECT_TRUE(field_error([](auto& c) { c.max_batch = 0; }).starts_with("max_batch"));
  EXPECT_EQ(field_error([](auto& c) { c.max_batch = -1; }), "max_batch: must be from 1 to 4096");
  EXPECT_TRUE(field_error([](auto& c) {
                c.worker.threads = 100'000;
              }).starts_with("threads: must be from 1 to 1024"));
  EXPECT_TRUE(field_error([](auto& c) { c.worker.worker_name = "a\nb"; }).starts_with("worker.name"));
  for (const char* policy : {"fast", "sweep", ""})  // the second is the laboratory's
    EXPECT_EQ(field_error([&](auto& c) { c.policy = policy; }),
              "lynx.policy: '" + std::string(policy) +
                  "' is not one of lynx, energy, off, share, oea, xshare, top_k_reduced");
  EXPECT_TRUE(field_error([](auto& c) { c.window = -1; }).starts_with("lynx.window"));
  EXPECT_TRUE(field_error([](auto& c) { c.weights = "all"; }).starts_with("lynx.weights: 'all'"));
}

// Past these limits the routing of the first step would end the process.
TEST(WorkerConfig, SettingsOfRemappingAreThoseThatTheRoutingTakes) {
  const auto routing_takes = [](auto change) {
    DecodeConfig config = valid();
    change(config);
    const bool takes = check_policy({.experts = 64, .top_k = 8}, config.route_policy()).ok();
    EXPECT_EQ(error_of([&] { config.validate(); }).empty(), takes);
    return takes;
  };
  EXPECT_TRUE(routing_takes([](auto& c) { c.bins = kMaxBins; }));
  EXPECT_FALSE(routing_takes([](auto& c) { c.bins = kMaxBins + 1; }));
  EXPECT_TRUE(routing_takes([](auto& c) { c.share = kMaxShare; }));
  EXPECT_FALSE(routing_takes([](auto& c) { c.share = kMaxShare + 0.1; }));
  EXPECT_FALSE(routing_takes([](auto& c) { c.share = -0.1; }));
  EXPECT_TRUE(routing_takes([](auto& c) { c.energy = kMaxEnergy; }));
  EXPECT_FALSE(routing_takes([](auto& c) { c.energy = kMaxEnergy + 0.1; }));
  EXPECT_FALSE(routing_takes([](auto& c) { c.energy = 0; }));
  DecodeConfig config = valid();
  config.bins = 1000;
  EXPECT_EQ(error_of([&] { config.validate(); }), "lynx.bins: expected at most 32, got 1000");
}

TEST(WorkerConfig, NumbersArePrintedAsTheyAreWritten) {
  DecodeConfig config = valid();
  ConfigFields fields;
  config.describe(fields);
  EXPECT_NE(print_yaml(fields).find("  share: 0.8\n"), std::string::npos) << print_yaml(fields);
  read_yaml_text("max_batch: -1", "decode.yaml", fields);
  EXPECT_EQ(error_of([&] { config.validate(); }), "max_batch: must be from 1 to 4096");
}

TEST(WorkerConfig, TheDecodeWorkerRemapsUnlessToldOtherwise) {
  EXPECT_EQ(valid().route_policy().kind, PolicyKind::kLynx);
  DecodeConfig off = valid();
  off.policy = "off";
  EXPECT_EQ(off.route_policy().kind, PolicyKind::kOff);
}

TEST(WorkerConfig, NamesComeFromTheFolderAndTheProcess) {
  WorkerConfig config;
  config.model_path = "/models/lynx-mini/";
  EXPECT_EQ(config.served_model(), "lynx-mini");
  config.model_name = "m";
  EXPECT_EQ(config.served_model(), "m");
  EXPECT_FALSE(config.name().empty());
  config.worker_name = "decode-0";
  EXPECT_EQ(config.name(), "decode-0");
}

ModelConfig tiny() {
  ModelConfig model;
  model.vocab = 1000;
  model.hidden = 64;
  model.layers = 2;
  model.q_heads = 4;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.moe_intermediate = 32;
  model.router = {8, 2, true, RouterKind::kSoftmax};
  model.context = 128;
  return model;
}

TEST(WorkerConfig, ThePoolComesFromBlocksOrMemory) {
  WorkerConfig config;
  config.kv_memory_mb = 1;
  const PageLayout layout = config.layout(tiny());
  EXPECT_EQ(layout.blocks,
            (1U << 20) / (2 * 2 * 16 * 2 * 16 * 4));  // layers, K and V, tokens, heads, size, f32
  EXPECT_LE(layout.pool_bytes(), 1U << 20);
  config.kv_dtype = "bf16";
  EXPECT_EQ(config.layout(tiny()).blocks, layout.blocks * 2);
  config.kv_blocks = 7;
  EXPECT_EQ(config.layout(tiny()).blocks, 7U);
  config.kv_blocks = 0;
  config.kv_block_tokens = 1024;
  ModelConfig wide = tiny();
  wide.layers = 64;
  EXPECT_TRUE(error_of([&] { static_cast<void>(config.layout(wide)); }).starts_with("kv.memory_mb"));
}

TEST(MemoryBudget, APoolInDeviceMemoryTakesNoneOfTheHosts) {
  WorkerConfig config;
  config.kv_memory_mb = 8;
  const PageLayout layout = config.layout(tiny());
  const MemoryBudget pinned = memory_budget_beside_gpu(tiny(), layout, 16, KvPath::kPinned);
  const MemoryBudget device = memory_budget_beside_gpu(tiny(), layout, 16, KvPath::kDevice);
  EXPECT_EQ(pinned.kv_pool, layout.pool_bytes());
  EXPECT_EQ(device.total(), pinned.total() - layout.pool_bytes());
}

TEST(MemoryBudget, AddsUpAndSaysSo) {
  WorkerConfig config;
  config.kv_memory_mb = 8;
  const MemoryBudget budget = memory_budget(tiny(), config.layout(tiny()), 512, 16);
  EXPECT_EQ(budget.kv_pool, config.layout(tiny()).pool_bytes());
  EXPECT_EQ(budget.total(), budget.weights + budget.kv_pool + budget.activations + budget.process);
  // Two layers of 8 experts of 3 x 64 x 32, and the vocabulary twice, in bf16: most of the weights.
  EXPECT_GT(budget.weights, (2U * 8 * 3 * 64 * 32 + 2U * 1000 * 64) * 2);
  EXPECT_LT(budget.weights, 2U * (2U * 8 * 3 * 64 * 32 + 2U * 1000 * 64) * 2);
  EXPECT_NE(budget.describe().find("KV pool 8.0 MiB"), std::string::npos) << budget.describe();
  EXPECT_GT(available_memory().value_or(1), 0U);
}

TEST(Config, PrefillAndDecodePrintAndReadBack) {
  DecodeConfig decode;
  ConfigFields fields;
  decode.describe(fields);
  const std::string text = print_yaml(fields);
  EXPECT_NE(text.find("policy: lynx"), std::string::npos) << text;
  read_yaml_text(text, "printed", fields);
  PrefillConfig prefill;
  ConfigFields prefill_fields;
  prefill.describe(prefill_fields);
  read_yaml_text("prefill:\n  chunk_tokens: 64\nkv:\n  dtype: bf16\n", "own", prefill_fields);
  EXPECT_EQ(prefill.chunk_tokens, 64U);
  EXPECT_EQ(prefill.worker.kv_dtype, "bf16");
}

}  // namespace
}  // namespace lynx
