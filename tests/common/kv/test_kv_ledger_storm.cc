// Random storms of everything that can happen to a ledger, against a model of which writes are still under
// way.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "common/kv/kv_ledger.h"

namespace lynx {
namespace {

using std::chrono::milliseconds;

class Storm {
 public:
  Storm(std::uint32_t blocks, std::uint64_t seed) : ledger_(blocks, seed), random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      check();
    }
    settle();
  }

 private:
  std::uint32_t draw(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }
  template <typename T>
  T& pick(std::vector<T>& from) {
    return from[draw(0, static_cast<std::uint32_t>(from.size()) - 1)];
  }

  void step() {
    switch (draw(0, 7)) {
      case 0:
        lease();
        break;
      case 1:
        allocate();
        break;
      case 2:
      case 3:
        begin_write();
        break;
      case 4:
        end_write();
        break;
      case 5:
        if (!tickets_.empty()) (void)ledger_.activate(pick(tickets_).id);
        break;
      case 6:
        if (!tickets_.empty()) ledger_.release(pick(tickets_).id);
        break;
      case 7:
        now_ += milliseconds(draw(0, 5));
        (void)ledger_.expire(now_);
        break;
    }
  }

  void lease() {
    const std::uint32_t total = draw(0, ledger_.total_blocks() / 3 + 2);
    const std::uint32_t prompt = draw(0, total + 1);
    const std::uint32_t free = ledger_.free_blocks();
    const auto ticket = ledger_.lease(draw(0, 1000), prompt, total, now_ + milliseconds(draw(0, 40)));
    ASSERT_EQ(ticket.ok(), total > 0 && prompt <= total && total <= free);
    if (ticket.ok()) tickets_.push_back(*ticket);
  }

  void allocate() {
    const auto ticket = ledger_.allocate(1, draw(1, 4));
    if (ticket.ok()) tickets_.push_back(*ticket);
  }

  void begin_write() {
    if (tickets_.empty()) return;
    const LeaseTicket ticket = pick(tickets_);
    const auto view = ledger_.find(ticket.id);
    const BlockId first =
        view ? view->blocks[draw(0, static_cast<std::uint32_t>(view->blocks.size()) - 1)] : draw(0, 50);
    if (ledger_.begin_write(ticket, first, draw(0, 3), now_).ok()) writes_.push_back(ticket.id);
  }

  void end_write() {
    if (writes_.empty()) return;
    std::uint64_t& id = pick(writes_);
    ledger_.end_write(id);
    id = writes_.back();
    writes_.pop_back();
  }

  void check() {
    const auto counts = ledger_.counts();
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0U), ledger_.total_blocks());
    ASSERT_EQ(counts[0], ledger_.free_blocks());
    // A quarantine always has a write to wait for.
    if (writes_.empty()) {
      ASSERT_EQ(counts[static_cast<std::size_t>(BlockState::kQuarantined)], 0U);
    }
    check_blocks_have_one_owner();
  }

  void check_blocks_have_one_owner() {
    std::vector<bool> owned(ledger_.total_blocks(), false);
    for (const LeaseTicket& ticket : tickets_) {
      const auto view = ledger_.find(ticket.id);
      if (!view) continue;
      for (const BlockId block : view->blocks) {
        ASSERT_FALSE(owned[block]) << "block " << block << " is in two leases";
        owned[block] = true;
      }
    }
  }

  void settle() {
    for (const LeaseTicket& ticket : tickets_) ledger_.release(ticket.id);
    for (const std::uint64_t id : writes_) ledger_.end_write(id);
    ASSERT_TRUE(ledger_.all_free()) << ledger_.to_json();
    const auto everything = ledger_.lease(1, ledger_.total_blocks(), ledger_.total_blocks(), now_);
    ASSERT_TRUE(everything.ok());
    const auto blocks = ledger_.find(everything->id)->blocks;
    for (std::uint32_t i = 0; i < blocks.size(); ++i) ASSERT_EQ(blocks[i], i);
  }

  KvLedger ledger_;
  std::mt19937_64 random_;
  Clock::time_point now_{};
  std::vector<LeaseTicket> tickets_;
  std::vector<std::uint64_t> writes_;  // ids of leases, one for each write under way
};

TEST(KvLedgerStorm, AlwaysAddsUpAndEndsAllFree) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Storm storm(static_cast<std::uint32_t>(1 + seed * 7 % 61), seed);
    storm.run(600);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace lynx
