// What a router sends is outside: any bytes that pass for a frame are read to a request or to an error.
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "services/worker/wire.h"

namespace lynx {
namespace {

void fill(capnp::MessageBuilder& message) {
  auto out = message.initRoot<proto::Frame>().initPrefill();
  out.setRequest(42);
  auto tokens = out.initTokens(3);
  for (unsigned i = 0; i < 3; ++i) tokens.set(i, 10 + i);
  out.setGenerated(1);
  auto sampling = out.initSampling();
  sampling.setTemperature(0.5F);
  sampling.setTopK(7);
  sampling.setSeed(99);
  sampling.setMaxTokens(20);
  sampling.setReceipt(true);
  auto bias = sampling.initLogitBias(1);
  bias[0].setToken(4);
  bias[0].setBias(-2);
  out.setDeadlineMs(1500);
  out.setSloClass("interactive");
  auto lease = out.initLease();
  lease.setId(5);
  lease.setGeneration(6);
  lease.setKey(7);
  lease.setDeadlineMs(900);
  lease.initBlocks(2).set(1, 33);
  out.setDecodeWorker("decode-0");
  out.setDecodeIncarnation(8);
  out.setKvAddress({reinterpret_cast<const capnp::byte*>("ab"), 2});
}

TEST(Wire, ReadsAPrefillWhole) {
  capnp::MallocMessageBuilder message;
  fill(message);
  const auto in = wire::read_prefill(message.getRoot<proto::Frame>().asReader().getPrefill());
  ASSERT_TRUE(in.ok());
  EXPECT_EQ(in->head.request, 42U);
  EXPECT_EQ(in->head.tokens, (std::vector<TokenId>{10, 11, 12}));
  EXPECT_EQ(in->head.generated, 1U);
  EXPECT_EQ(in->head.sampling.temperature, 0.5F);
  EXPECT_EQ(in->head.sampling.top_k, 7U);
  EXPECT_EQ(in->head.sampling.seed, 99U);
  EXPECT_EQ(in->head.sampling.max_tokens, 20U);
  EXPECT_TRUE(in->head.sampling.receipt);
  EXPECT_EQ(in->head.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{4, -2.0F}}));
  EXPECT_EQ(in->head.deadline, std::chrono::milliseconds(1500));
  EXPECT_EQ(in->head.slo_class, "interactive");
  EXPECT_EQ(in->lease.key, 7U);
  EXPECT_EQ(in->lease_deadline, std::chrono::milliseconds(900));
  EXPECT_EQ(in->lease_blocks, (std::vector<BlockId>{0, 33}));
  EXPECT_EQ(in->decode, (KvPeer{"decode-0", 8, "ab"}));
}

TEST(Wire, DefaultsAreTheSchemas) {
  capnp::MallocMessageBuilder message;
  message.initRoot<proto::Frame>().initReserve();
  const auto in = wire::read_reserve(message.getRoot<proto::Frame>().asReader().getReserve());
  ASSERT_TRUE(in.ok());
  EXPECT_TRUE(in->tokens.empty());
  EXPECT_EQ(in->sampling.temperature, 1);
  EXPECT_EQ(in->sampling.top_p, 1);
  EXPECT_EQ(in->sampling.max_tokens, 0U);
  EXPECT_FALSE(in->sampling.receipt);
}

TEST(Wire, GarbledFramesAreErrorsNotCrashes) {
  capnp::MallocMessageBuilder message;
  fill(message);
  const kj::Array<capnp::word> sound = capnp::messageToFlatArray(message);
  std::mt19937 rng(3);
  int errors = 0;
  for (int round = 0; round < 20'000; ++round) {
    kj::Array<capnp::word> bytes = kj::heapArray<capnp::word>(sound.size());
    std::memcpy(bytes.begin(), sound.begin(), sound.size() * sizeof(capnp::word));
    auto* raw = reinterpret_cast<unsigned char*>(bytes.begin());
    for (int flips = 1 + static_cast<int>(rng() % 4); flips > 0; --flips)
      raw[8 + rng() % (sound.size() * sizeof(capnp::word) - 8)] ^=
          static_cast<unsigned char>(1U << rng() % 8);
    try {
      capnp::FlatArrayMessageReader reader(bytes);
      const auto frame = reader.getRoot<proto::Frame>();
      if (!frame.isPrefill()) continue;
      const auto in = wire::read_prefill(frame.getPrefill());
      if (!in) {
        EXPECT_EQ(in.error().code, ErrorCode::kCorrupt);
        ++errors;
      }
    } catch (
        const kj::Exception&) {  // the frame's own pointer: the stream refuses it before a worker sees it
    }
  }
  EXPECT_GT(errors, 100);
}

TEST(Wire, WritesTokensOfOneStep) {
  SampledTokenData a;
  a.token = 5;
  a.index = 2;
  a.logprob = -0.5F;
  a.top_logprobs = {{5, -0.5F}, {6, -1.5F}};
  SampledTokenData b;
  b.token = 7;
  b.finish = static_cast<std::uint8_t>(FinishReason::kStop);
  capnp::MallocMessageBuilder message;
  const StepReceipt receipt{.assignments = 8, .remapped = 3, .router_mass = 0.75F, .batch = 5};
  wire::write_tokens(message, 9, {{1, &a, &receipt}, {2, &b}});
  const auto out = message.getRoot<proto::Frame>().asReader().getTokens();
  EXPECT_EQ(out.getStep(), 9U);
  ASSERT_EQ(out.getItems().size(), 2U);
  EXPECT_EQ(out.getItems()[0].getToken().getTopLogprobs()[1].getLogprob(), -1.5F);
  const auto told = out.getItems()[0].getReceipt();
  EXPECT_EQ((StepReceipt{told.getAssignments(), told.getRemapped(), told.getRouterMass(), told.getBatch()}),
            receipt);
  EXPECT_FALSE(out.getItems()[1].hasReceipt());
  EXPECT_EQ(out.getItems()[1].getRequest(), 2U);
  EXPECT_EQ(out.getItems()[1].getToken().getFinish(), proto::FinishReason::STOP);
}

// The enums of the schema are ours with the same order.
TEST(Wire, EnumsAgreeWithTheSchema) {
  EXPECT_EQ(static_cast<int>(proto::FinishReason::LENGTH), static_cast<int>(FinishReason::kLength));
  EXPECT_EQ(static_cast<int>(proto::FinishReason::STOP), static_cast<int>(FinishReason::kStop));
  EXPECT_EQ(static_cast<int>(proto::ErrorCode::INTERNAL), static_cast<int>(ErrorCode::kInternal));
  EXPECT_EQ(static_cast<int>(proto::ErrorCode::BUSY), static_cast<int>(ErrorCode::kBusy));
  EXPECT_EQ(static_cast<int>(proto::ErrorCode::INCOMPATIBLE), static_cast<int>(ErrorCode::kIncompatible));
}

}  // namespace
}  // namespace lynx
