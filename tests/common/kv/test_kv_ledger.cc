#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "common/kv/kv_ledger.h"

namespace lynx {
namespace {

using std::chrono::seconds;
using Counts = std::array<std::uint32_t, kBlockStates>;  // free, leased, receiving, active, quarantined

const Clock::time_point kStart{};
const Clock::time_point kDeadline = kStart + seconds(10);

class Ledger : public testing::Test {
 protected:
  LeaseTicket lease(std::uint32_t prompt, std::uint32_t total, Clock::time_point deadline = kDeadline) {
    auto ticket = ledger.lease(7, prompt, total, deadline);
    EXPECT_TRUE(ticket.ok()) << ticket.error().message;
    return *ticket;
  }
  BlockId first_block(const LeaseTicket& ticket) { return ledger.find(ticket.id)->blocks.front(); }

  KvLedger ledger{10, 42};
};

TEST_F(Ledger, AWholeLifeOnTheDecodeSide) {
  const LeaseTicket ticket = lease(3, 5);
  EXPECT_EQ(ledger.counts(), (Counts{5, 5, 0, 0, 0}));
  ASSERT_TRUE(ledger.begin_write(ticket, first_block(ticket), 2, kStart).ok());
  EXPECT_EQ(ledger.counts(), (Counts{5, 3, 2, 0, 0}));
  ledger.end_write(ticket.id);
  ASSERT_TRUE(ledger.activate(ticket.id).ok());
  EXPECT_EQ(ledger.counts(), (Counts{5, 0, 0, 5, 0}));
  ledger.release(ticket.id);
  EXPECT_TRUE(ledger.all_free());
}

TEST_F(Ledger, AWholeLifeOnThePrefillSide) {
  const auto ticket = ledger.allocate(1, 4);
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(ledger.counts(), (Counts{6, 0, 0, 4, 0}));
  EXPECT_TRUE(ledger.expire(Clock::time_point::max() - seconds(1)).empty());
  ledger.release(ticket->id);
  EXPECT_TRUE(ledger.all_free());
}

TEST_F(Ledger, LeasesAllOrNothing) {
  lease(4, 8);
  EXPECT_EQ(ledger.lease(1, 1, 3, kDeadline).error().code, ErrorCode::kBusy);
  EXPECT_EQ(ledger.allocate(1, 3).error().code, ErrorCode::kBusy);
  EXPECT_EQ(ledger.counts(), (Counts{2, 8, 0, 0, 0}));
}

TEST_F(Ledger, RefusesWhatCanNeverBe) {
  EXPECT_EQ(ledger.lease(1, 1, 11, kDeadline).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ledger.lease(1, 0, 0, kDeadline).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ledger.lease(1, 3, 2, kDeadline).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ledger.allocate(1, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(ledger.all_free());
}

TEST_F(Ledger, FindShowsPromptBlocksFirst) {
  const LeaseTicket ticket = lease(2, 4);
  const auto view = ledger.find(ticket.id);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->request, 7U);
  EXPECT_EQ(view->prompt_blocks, 2U);
  EXPECT_EQ(view->deadline, kDeadline);
  EXPECT_EQ(std::vector<BlockId>(view->blocks.begin(), view->blocks.end()),
            (std::vector<BlockId>{0, 1, 2, 3}));
}

TEST_F(Ledger, TheTicketIsTheOnlyRightToWrite) {
  const LeaseTicket ticket = lease(2, 4);
  const BlockId first = first_block(ticket);
  const auto refused = [&](LeaseTicket shown, BlockId block, std::uint32_t count, Clock::time_point now) {
    return ledger.begin_write(shown, block, count, now).error().code;
  };
  LeaseTicket wrong = ticket;
  wrong.id += 1;
  EXPECT_EQ(refused(wrong, first, 1, kStart), ErrorCode::kNotFound);
  wrong = ticket;
  wrong.generation += 1;
  EXPECT_EQ(refused(wrong, first, 1, kStart), ErrorCode::kPermission);
  wrong = ticket;
  wrong.key ^= 1;
  EXPECT_EQ(refused(wrong, first, 1, kStart), ErrorCode::kPermission);
  EXPECT_EQ(refused(ticket, first, 1, kDeadline), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(refused(ticket, first, 3, kStart), ErrorCode::kPermission);  // into the decode room
  EXPECT_EQ(refused(ticket, first + 2, 1, kStart), ErrorCode::kPermission);
  EXPECT_EQ(refused(ticket, first, 0, kStart), ErrorCode::kPermission);
  EXPECT_EQ(refused(ticket, first + 1, 0xffffffffU, kStart), ErrorCode::kPermission);
  EXPECT_EQ(refused(ticket, 0xffffffffU, 2, kStart), ErrorCode::kPermission);
  EXPECT_EQ(ledger.counts(), (Counts{6, 4, 0, 0, 0}));
  EXPECT_TRUE(ledger.begin_write(ticket, first, 2, kStart).ok());
}

TEST_F(Ledger, AnActiveLeaseTakesNoWritesAndNeverExpires) {
  const LeaseTicket ticket = lease(2, 2);
  ASSERT_TRUE(ledger.activate(ticket.id).ok());
  EXPECT_EQ(ledger.begin_write(ticket, first_block(ticket), 1, kStart).error().code, ErrorCode::kPermission);
  EXPECT_TRUE(ledger.expire(kDeadline + seconds(1)).empty());
  EXPECT_EQ(ledger.activate(ticket.id).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Ledger, ActivationWaitsForTheLastWrite) {
  const LeaseTicket ticket = lease(2, 2);
  ASSERT_TRUE(ledger.begin_write(ticket, first_block(ticket), 1, kStart).ok());
  EXPECT_EQ(ledger.activate(ticket.id).error().code, ErrorCode::kInvalidArgument);
  ledger.end_write(ticket.id);
  EXPECT_TRUE(ledger.activate(ticket.id).ok());
}

TEST_F(Ledger, ReleaseDuringAWriteQuarantinesWhatTheWriteMayTouch) {
  const LeaseTicket ticket = lease(3, 5);
  ASSERT_TRUE(ledger.begin_write(ticket, first_block(ticket), 2, kStart).ok());
  ASSERT_TRUE(ledger.begin_write(ticket, first_block(ticket), 2, kStart).ok());  // the next layer
  ledger.release(ticket.id);
  EXPECT_EQ(ledger.counts(), (Counts{8, 0, 0, 0, 2}));
  EXPECT_FALSE(ledger.find(ticket.id));
  EXPECT_EQ(ledger.begin_write(ticket, 0, 1, kStart).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ledger.activate(ticket.id).error().code, ErrorCode::kNotFound);
  ledger.release(ticket.id);  // crossed an expiry: nothing
  ledger.end_write(ticket.id);
  EXPECT_EQ(ledger.counts(), (Counts{8, 0, 0, 0, 2}));
  ledger.end_write(ticket.id);
  EXPECT_TRUE(ledger.all_free());
}

TEST_F(Ledger, ExpiryNamesTheRequestsOldestFirst) {
  for (std::uint64_t request = 1; request <= 4; ++request)
    ASSERT_TRUE(ledger.lease(request, 1, 2, request == 3 ? kDeadline + seconds(1) : kDeadline).ok());
  EXPECT_TRUE(ledger.expire(kDeadline - seconds(1)).empty());
  EXPECT_EQ(ledger.expire(kDeadline), (std::vector<std::uint64_t>{1, 2, 4}));
  EXPECT_TRUE(ledger.expire(kDeadline).empty());
  EXPECT_EQ(ledger.free_blocks(), 8U);
}

TEST_F(Ledger, ANewLeaseOverTheSameBlocksHasANewTicket) {
  const LeaseTicket old = lease(10, 10);
  ledger.release(old.id);
  const LeaseTicket fresh = lease(10, 10);
  EXPECT_NE(fresh.id, old.id);
  EXPECT_NE(fresh.generation, old.generation);
  EXPECT_NE(fresh.key, old.key);
  EXPECT_EQ(ledger.begin_write(old, 0, 1, kStart).error().code, ErrorCode::kNotFound);
}

TEST_F(Ledger, PromptsStayContiguousBetweenHoles) {
  std::vector<LeaseTicket> small;
  for (int i = 0; i < 5; ++i) small.push_back(lease(1, 2));
  ledger.release(small[0].id);
  ledger.release(small[2].id);
  ledger.release(small[3].id);  // holes of 2 and 4 blocks
  const LeaseTicket ticket = lease(4, 5);
  const auto blocks = ledger.find(ticket.id)->blocks;
  EXPECT_EQ(blocks[3] - blocks[0], 3U);
}

TEST(SharedBlocks, AreFreeWhenTheLastUserLeavesAndHandedOutLast) {
  KvLedger ledger(8, 1);
  std::vector<BlockId> reused;
  ledger.on_reuse([&](BlockId block) { reused.push_back(block); });
  const auto blocks_of = [&](const LeaseTicket& ticket) {
    const auto view = ledger.find(ticket.id);
    return std::vector<BlockId>(view->blocks.begin(), view->blocks.end());
  };
  const LeaseTicket first = *ledger.allocate(1, 3);
  const std::vector<BlockId> prompt = blocks_of(first);
  ledger.keep(prompt[0]);
  ledger.keep(prompt[1]);
  const LeaseTicket second = *ledger.allocate(2, 3, std::span(prompt).first(2));
  EXPECT_EQ(blocks_of(second)[1], prompt[1]);
  EXPECT_EQ(ledger.free_blocks(), 4U) << "two blocks are held by two and count once";
  ledger.release(first.id);
  EXPECT_EQ(ledger.free_blocks(), 5U);
  ledger.release(second.id);
  EXPECT_TRUE(ledger.all_free()) << "what is kept is free";

  const LeaseTicket third = *ledger.allocate(3, 6);  // as many as are free and not kept
  EXPECT_TRUE(reused.empty());
  EXPECT_FALSE(ledger.allocate(4, 3).ok());
  const LeaseTicket fourth = *ledger.allocate(4, 2, std::span(prompt).first(1));
  EXPECT_EQ(reused, std::vector<BlockId>{prompt[1]}) << "the one that is not shared makes room";
  EXPECT_EQ(ledger.free_blocks(), 0U);
  ledger.release(third.id);
  ledger.release(fourth.id);
  const LeaseTicket all = *ledger.allocate(5, 8);
  EXPECT_EQ(reused, (std::vector<BlockId>{prompt[1], prompt[0]}));
  ledger.release(all.id);
  EXPECT_TRUE(ledger.all_free());
}

TEST(SharedBlocks, TheOldestIsHandedOutFirstAndUseMakesYoung) {
  KvLedger ledger(3, 1);
  std::vector<BlockId> reused;
  ledger.on_reuse([&](BlockId block) { reused.push_back(block); });
  std::vector<BlockId> blocks;
  for (std::uint64_t request = 1; request <= 3; ++request) {
    const LeaseTicket ticket = *ledger.allocate(request, 1);
    blocks.push_back(ledger.find(ticket.id)->blocks[0]);
    ledger.keep(blocks.back());
    ledger.release(ticket.id);
  }
  ledger.release(ledger.allocate(4, 1, std::span(blocks).first(1))->id);
  ledger.release(ledger.allocate(5, 2)->id);
  EXPECT_EQ(reused, (std::vector<BlockId>{blocks[1], blocks[2]}));
}

TEST_F(Ledger, JsonNamesStatesAndLeases) {
  const LeaseTicket ticket = lease(2, 3);
  ASSERT_TRUE(ledger.begin_write(ticket, first_block(ticket), 1, kStart).ok());
  ASSERT_TRUE(ledger.allocate(8, 1).ok());
  const auto json = nlohmann::json::parse(ledger.to_json(kStart));
  EXPECT_EQ(json["blocks"], 10);
  EXPECT_EQ(
      json["states"],
      (nlohmann::json{{"free", 6}, {"leased", 2}, {"receiving", 1}, {"active", 1}, {"quarantined", 0}}));
  ASSERT_EQ(json["leases"].size(), 2U);
  EXPECT_EQ(json["leases"][0], (nlohmann::json{{"lease", 1},
                                               {"request", 7},
                                               {"state", "open"},
                                               {"blocks", 3},
                                               {"prompt_blocks", 2},
                                               {"writes_under_way", 1},
                                               {"expires_in_ms", 10'000}}));
  EXPECT_EQ(json["leases"][1]["state"], "active");
  EXPECT_FALSE(nlohmann::json::parse(ledger.to_json())["leases"][0].contains("expires_in_ms"));
}

using LedgerDeathTest = Ledger;
TEST_F(LedgerDeathTest, AWriteThatNeverBeganIsABug) { EXPECT_DEATH(ledger.end_write(99), "never began"); }

}  // namespace
}  // namespace lynx
