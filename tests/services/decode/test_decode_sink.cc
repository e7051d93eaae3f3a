// Where a decode worker's KV lands, by itself: what a hostile or confused sender may try.
#include <gtest/gtest.h>

#include <optional>

#include "tests/services/worker/pair_bench.h"

namespace lynx::testing {
namespace {

class DecodeSink : public ::testing::Test {
 protected:
  DecodeSink() {
    Ask five = ask(1, 8);  // 2 prompt blocks, 3 layers
    five.sampling.max_tokens = 5;
    five.sampling.ignore_eos = true;
    bench.reserve(five);
    lease = bench.decode_side.port.leases.back();
    header.lease = lease.ticket;
    header.kv_layout = bench.decode_side.cache.layout().fingerprint();
    header.first_block = lease.blocks[0];
    header.blocks = 1;
  }
  void write(std::uint32_t layer, std::uint32_t block, std::optional<SampledTokenData> first = std::nullopt) {
    KvPushHeader h = header;
    h.layer = layer;
    h.first_block = lease.blocks[block];
    h.first_token = std::move(first);
    const auto place = bench.decode_service.write_begin(h);
    ASSERT_TRUE(place.ok()) << place.error().message;
    EXPECT_EQ(place->size(), bench.decode_side.cache.layout().block_bytes());
    bench.decode_service.write_done(h, place->size());
  }
  void write_all_but_last() {
    for (std::uint32_t i = 0; i < 5; ++i) write(i / 2, i % 2);
  }
  SampledTokenData token(std::uint32_t id, std::uint32_t index) const {
    SampledTokenData out;
    out.token = id;
    out.index = index;
    return out;
  }

  PairBench bench;
  HeardLease lease;
  KvPushHeader header;
};

TEST_F(DecodeSink, ActivatesWhenEverythingIsInWhateverTheOrder) {
  write(2, 1, token(3, 0));
  write(1, 0);
  write(1, 1);
  write(0, 1);
  write(2, 0);
  EXPECT_EQ(bench.decode_service.load().running, 0U);
  write(0, 0);
  EXPECT_EQ(bench.decode_service.load().running, 1U);
}

TEST_F(DecodeSink, WaitsForTheFirstToken) {
  write_all_but_last();
  write(2, 1);
  EXPECT_EQ(bench.decode_service.load().running, 0U);
  write(2, 1, token(3, 0));  // a sender may repeat a block
  EXPECT_EQ(bench.decode_service.load().running, 1U);
}

TEST_F(DecodeSink, AFirstTokenThatCannotBeEndsTheRequest) {
  write_all_but_last();
  write(2, 1, token(5000, 0));
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_EQ(bench.decode_side.port.ended[0].code, ErrorCode::kCorrupt);
  EXPECT_FALSE(bench.decode_side.port.ended[0].transfer);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, AFirstTokenOutOfPlaceEndsTheRequest) {
  write_all_but_last();
  write(2, 1, token(5, 1));
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, AFirstTokenThatIsTheLastGeneratesNothing) {
  write_all_but_last();
  SampledTokenData last = token(5, 0);
  last.finish = static_cast<std::uint8_t>(FinishReason::kStop);
  write(2, 1, last);
  EXPECT_TRUE(bench.decode_service.idle());
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, WritesWithoutTheRightAreRefused) {
  KvPushHeader wrong = header;
  wrong.lease.key ^= 1;
  EXPECT_FALSE(bench.decode_service.write_begin(wrong).ok());
  wrong = header;
  wrong.first_block = lease.blocks.back() + 1;  // the room for generated tokens is not the sender's
  EXPECT_FALSE(bench.decode_service.write_begin(wrong).ok());
  write_all_but_last();
  write(2, 1, token(5, 0));
  EXPECT_FALSE(bench.decode_service.write_begin(header).ok());  // active: nobody writes from outside
}

// Field report 2: what did not land will not come by itself.
TEST_F(DecodeSink, AWriteThatFailsEndsTheRequest) {
  ASSERT_TRUE(bench.decode_service.write_begin(header).ok());
  bench.decode_service.write_done(header, Error{ErrorCode::kCorrupt, "checksum"});
  ASSERT_EQ(bench.decode_side.port.ended.size(), 1U);
  EXPECT_TRUE(bench.decode_side.port.ended[0].transfer);
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
}

TEST_F(DecodeSink, CancelledUnderAWriteTheBlocksWaitForItsEnd) {
  ASSERT_TRUE(bench.decode_service.write_begin(header).ok());
  bench.cancel(bench.decode_service, {1, 1});
  EXPECT_EQ(bench.decode_side.ledger.counts()[static_cast<std::size_t>(BlockState::kQuarantined)], 1U);
  bench.decode_service.write_done(header, std::uint64_t{1});
  EXPECT_TRUE(bench.decode_side.ledger.all_free());
  EXPECT_TRUE(bench.decode_side.port.ended.empty());
}

}  // namespace
}  // namespace lynx::testing
