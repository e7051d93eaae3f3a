// Placement by experts: the policy, the sums it reads, what the router remembers, and all of it together.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "services/router/expert_profile.h"
#include "services/router/policy.h"
#include "tests/services/router/dispatch_bench.h"

namespace lynx::testing {
namespace {

WorkerLoad load(std::uint64_t worker, std::uint64_t requests, double new_experts) {
  return {worker, requests, 64, 0, 1, new_experts};
}

TEST(ExpertAffinity, TakesFewestNewExpertsAmongWorkersOfLikeLoad) {
  EXPECT_EQ(expert_affinity(std::vector{load(1, 8, 9), load(2, 9, 3), load(3, 8, 5)}, 0), 1U);
  EXPECT_EQ(expert_affinity(std::vector{load(1, 8, 9), load(2, 12, 3), load(3, 9, 5)}, 0), 2U)
      << "13 requests are more than 1.5 x 8";
  EXPECT_EQ(expert_affinity(std::vector{load(1, 0, 9), load(2, 1, 3)}, 0), 0U)
      << "an idle worker is not left idle";
}

TEST(ExpertAffinity, IsLeastLoadedWhereNothingIsKnown) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<WorkerLoad> table;
    for (std::uint64_t worker = 1; worker <= 5; ++worker) table.push_back(load(worker, random() % 2, 0));
    const std::uint64_t last = random() % 6;
    EXPECT_EQ(expert_affinity(table, last), least_loaded(table, last));
  }
}

// Field report 11.
TEST(ExpertAffinity, ABurstSpreadsWithinOneAndAHalfWhateverTheExperts) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<WorkerLoad> table;
    for (std::uint64_t worker = 1; worker <= 4; ++worker) table.push_back(load(worker, 0, 0));
    for (int arrival = 0; arrival < 100; ++arrival) {
      for (WorkerLoad& worker : table) worker.new_experts = static_cast<double>(worker.worker + random() % 2);
      ++table[expert_affinity(table, 0)].requests;
      const auto [least, most] = std::minmax_element(
          table.begin(), table.end(),
          [](const WorkerLoad& a, const WorkerLoad& b) { return a.requests < b.requests; });
      EXPECT_LE(static_cast<double>(most->requests), std::max(1.5 * static_cast<double>(least->requests),
                                                              1.0 + static_cast<double>(least->requests)));
    }
  }
}

TEST(ExpertLoad, CountsWhatIsNewAndLeavesNoTrace) {
  ExpertLoad sum;
  const ExpertProfile a{255, 0, 0, 51}, b{0, 0, 255, 51};
  EXPECT_NEAR(sum.new_experts(a), 1.2, 1e-6) << "nothing is used yet";
  sum.add(a);
  EXPECT_NEAR(sum.new_experts(a), 0.2 * 0.8, 1e-3) << "the first is there, the last in one step of five";
  EXPECT_NEAR(sum.new_experts(b), 1 + 0.2 * 0.8, 1e-3);
  sum.add(b);
  sum.add(a);
  EXPECT_NEAR(sum.new_experts(b), 0.2 * 0.8 * 0.8 * 0.8, 1e-3);
  sum.remove(a);
  sum.remove(a);
  EXPECT_NEAR(sum.new_experts(a), 1 + 0.2 * 0.8, 1e-3);
  EXPECT_FALSE(sum.fits({1, 2})) << "another model's";
  EXPECT_NEAR(sum.new_experts(ExpertProfile(9, 255)), 9, 1e-6);
  sum.remove(b);
  EXPECT_TRUE(sum.fits({1, 2}));
  EXPECT_NEAR(sum.new_experts(a), 1.2, 1e-6);
}

std::vector<TokenId> prompt(TokenId head, std::size_t length, TokenId rest = 5) {
  std::vector<TokenId> out(length, rest);
  std::fill_n(out.begin(), std::min<std::size_t>(length, 16), head);
  return out;
}

SharedProfile profile(std::uint8_t first, std::uint8_t second) {
  return std::make_shared<ExpertProfile>(ExpertProfile{first, second});
}

TEST(ProfileMemory, KnowsTheLongestBeginning) {
  ProfileMemory memory(1 << 20);
  const auto long_keys = ProfileMemory::keys_of(prompt(1, 40));
  EXPECT_EQ(long_keys.size(), 2U) << "16 and 32 tokens";
  EXPECT_TRUE(ProfileMemory::keys_of(prompt(1, 15)).empty());
  EXPECT_EQ(memory.predict(long_keys), nullptr);
  memory.learn(long_keys, profile(200, 0));
  memory.learn(ProfileMemory::keys_of(prompt(1, 16)), profile(0, 200));
  EXPECT_EQ(*memory.predict(long_keys), (ExpertProfile{200, 0})) << "the conversation's own";
  EXPECT_EQ(*memory.predict(ProfileMemory::keys_of(prompt(1, 40, 6))), (ExpertProfile{150, 50}))
      << "the system prompt's, a mean that follows";
  EXPECT_EQ(memory.predict(ProfileMemory::keys_of(prompt(2, 40))), nullptr);
}

TEST(ProfileMemory, ForgetsTheOldestAndOtherModels) {
  ProfileMemory memory(1000);
  for (TokenId head = 1; head <= 50; ++head)
    memory.learn(ProfileMemory::keys_of(prompt(head, 16)), profile(1, 2));
  EXPECT_LT(memory.size(), 10U);
  EXPECT_GT(memory.size(), 0U);
  EXPECT_EQ(memory.predict(ProfileMemory::keys_of(prompt(1, 16))), nullptr);
  EXPECT_NE(memory.predict(ProfileMemory::keys_of(prompt(50, 16))), nullptr);
  const auto other = std::make_shared<ExpertProfile>(ExpertProfile{1, 2, 3});
  memory.learn(ProfileMemory::keys_of(prompt(50, 16)), other);
  EXPECT_EQ(memory.predict(ProfileMemory::keys_of(prompt(50, 16))), other) << "not a mean of two models";
  memory.learn(ProfileMemory::keys_of(prompt(50, 16)), std::make_shared<ExpertProfile>(2000, 1));
  EXPECT_EQ(memory.size(), 0U) << "larger than all there is room for";
}

class AffineDispatch : public ::testing::Test {
 protected:
  AffineDispatch() : bench_(config()) {
    bench_.add_pair();
    bench_.add_worker(WorkerRole::kDecode, "d2");
  }
  static DispatchConfig config() {
    DispatchConfig out;
    out.workers.policy = expert_affinity;
    return out;
  }
  struct Placed {
    SentFrame reserve, prefill;
    Dispatcher::FlowId flow;
  };
  Placed place(TokenId head, const ExpertProfile& experts = {}) {
    const auto flow = bench_.submit(4, 0, prompt(head, 20)).flow;
    const SentFrame reserve = bench_.take(Sent::kReserve);
    bench_.reserved(reserve);
    const SentFrame prefill = bench_.take(Sent::kPrefill);
    bench_.first_token(prefill, 9);
    bench_.handed_over(prefill, experts);
    return {reserve, prefill, flow};
  }
  DispatchBench bench_;
};

TEST_F(AffineDispatch, LikeRequestsMeetOnOneWorker) {
  const ExpertProfile code{255, 255, 0, 0}, prose{0, 0, 255, 255};
  std::map<TokenId, WorkerId> home;
  home[1] = place(1, code).reserve.to;
  home[2] = place(2, prose).reserve.to;
  EXPECT_NE(home[1], home[2]) << "an idle worker comes first";
  // The loads are equal each time, so least_loaded would take turns.
  for (const TokenId head : {2U, 1U, 1U, 2U, 2U, 1U})
    EXPECT_EQ(place(head, head == 1 ? code : prose).reserve.to, home[head]);
}

TEST_F(AffineDispatch, ProfilesAreAskedForAndGivenBack) {
  const Placed one = place(1, {255, 0});
  EXPECT_TRUE(one.prefill.count_experts);
  const Placed two = place(1, {0, 255, 0});  // of another model: not added to the first's
  for (const Placed& placed : {one, two}) bench_.dispatcher.cancel(placed.flow);
  EXPECT_TRUE(bench_.all_released());
  for (const auto& [id, worker] : bench_.dispatcher.workers().all())
    EXPECT_TRUE(worker.experts.fits({1, 2, 3, 4, 5})) << "nothing is counted there any more";
}

TEST(Dispatcher, OtherPoliciesAskForNoProfiles) {
  DispatchBench bench;
  bench.add_pair();
  bench.submit();
  EXPECT_FALSE(bench.reach_prefill().count_experts);
}

}  // namespace
}  // namespace lynx::testing
