// Plans of the device against route_reference, bit for bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "tests/kernels/cuda/route_parity.h"
#include "tests/kernels/lynx/recordings.h"

namespace lynx::cuda {
namespace {

class CudaRoute : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = missing_gpu(); !why.empty()) GTEST_SKIP() << "no GPU: " << why;
  }
};

void check(const RoutingCase& c) {
  RoutedBatch batch(c);
  batch.decode();
  expect_same(c, batch);
  expect_same_rows(c, batch);
}

const std::vector<RouterShape> kShapes{
    {.experts = 64, .top_k = 8}, {.experts = 128, .top_k = 8}, {.experts = 8, .top_k = 2},
    {.experts = 64, .top_k = 6}, {.experts = 256, .top_k = 8}, {.experts = 512, .top_k = 10},
    {.experts = 60, .top_k = 4}, {.experts = 33, .top_k = 32}, {.experts = 1, .top_k = 1},
    {.experts = 16, .top_k = 1}, {.experts = 128, .top_k = 1}};

TEST_F(CudaRoute, EveryPolicyShapeAndBatchSize) {
  std::uint32_t seed = std::random_device{}();
  std::printf("first seed %u\n", seed);
  for (const RouterShape& base : kShapes)
    for (const PolicyKind kind : kDevicePolicies)
      for (const std::uint32_t rows : {1U, 2U, 3U, 5U, 8U, 13U, 16U, 31U, 33U, 64U})
        for (const bool norm : {true, false}) {
          RouterShape shape = base;
          shape.norm_topk_prob = norm;
          shape.kind = seed % 4 == 0 ? RouterKind::kSigmoid : RouterKind::kSoftmax;
          RoutingCase c = random_case(seed, rows, shape, kind);
          c.policy.weights = some_weight_rule(seed++);
          ASSERT_NO_FATAL_FAILURE(check(c));
        }
}

TEST_F(CudaRoute, TiesInfinitiesAndZerosOfBothSigns) {
  std::mt19937 rng(7);
  for (const PolicyKind kind : kDevicePolicies)
    for (const std::uint32_t rows : {1U, 4U, 64U})
      for (int round = 0; round < 4; ++round) {
        RoutingCase c = random_case(rng(), rows, {.experts = 64, .top_k = 8}, kind);
        for (float& z : c.logits) {
          z = std::round(z);
          if (z == 0 && rng() % 2 == 0) z = -z;
          if (rng() % 40 == 0) z = std::numeric_limits<float>::infinity() * (rng() % 2 == 0 ? 1.0F : -1.0F);
        }
        ASSERT_NO_FATAL_FAILURE(check(c));
      }
}

// Few experts survive, so that the active set has to be filled up, by digits and by probability.
TEST_F(CudaRoute, FillsTheActiveSet) {
  for (const std::uint32_t rows : {2U, 3U, 4U, 9U, 64U})
    for (const float spread : {0.01F, 0.3F, 6.0F})
      for (const float setting : {0.01F, 0.2F, 1.0F, 4.0F}) {
        std::mt19937 rng(rows);
        RoutingCase c{
            .policy = {.kind = PolicyKind::kLynx, .window = setting}, .logits = {}, .live = {}, .exact = {}};
        const auto shared = random_row(rng, 64, spread);
        for (std::uint32_t r = 0; r < rows; ++r) {
          auto row = random_row(rng, 64, spread / 10);
          for (std::size_t e = 0; e < row.size(); ++e) row[e] += shared[e];
          c.add_row(row);
        }
        ASSERT_NO_FATAL_FAILURE(check(c));
        c.policy = {.kind = PolicyKind::kShare, .share = 2 * setting};
        ASSERT_NO_FATAL_FAILURE(check(c));
        c.policy = {.kind = PolicyKind::kXshare, .budget = static_cast<std::uint32_t>(1 + 4 * setting)};
        ASSERT_NO_FATAL_FAILURE(check(c));
        c.policy = {.kind = PolicyKind::kOea, .keep = 1};
        ASSERT_NO_FATAL_FAILURE(check(c));
      }
}

TEST_F(CudaRoute, PaddingExactRowsAndRowsWithANan) {
  for (const PolicyKind kind : kDevicePolicies)
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      RoutingCase c = random_case(seed, 24, {.experts = 128, .top_k = 8}, kind);
      for (std::uint32_t r = 24 - seed * 2; r < 24; ++r) c.live[r] = 0;
      c.exact.assign(24, 0);
      for (std::uint32_t r = 0; r < 24; r += 1 + seed) c.exact[r] = 1;
      if (seed % 3 == 1) c.row(seed)[seed] = std::nanf("");
      if (seed % 3 == 2)
        for (std::uint32_t r = 0; r < 24; ++r) c.row(r)[r] = std::nanf("");  // nobody votes
      ASSERT_NO_FATAL_FAILURE(check(c));
    }
}

// One expert to a row: energy goes by margins, from rows without confidence to rows that agree.
TEST_F(CudaRoute, OneExpertARow) {
  for (const float spread : {0.02F, 0.5F, 2.0F})
    for (const float threshold : {0.1F, 1.0F, 8.0F})
      for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid})
        for (const std::uint32_t rows : {1U, 2U, 5U, 16U, 40U, 64U}) {
          RoutingCase c =
              random_case(rows, rows, {.experts = 48, .top_k = 1, .kind = kind}, PolicyKind::kEnergy);
          c.policy.energy = threshold;
          std::mt19937 rng(rows);
          for (std::uint32_t r = 0; r < rows; ++r) {
            std::ranges::copy(random_row(rng, 48, spread), c.row(r).begin());
            if (r % 7 == 3)  // every sigmoid vanishes: nothing to lose
              for (float& z : c.row(r)) z -= 200;
          }
          if (rows > 4) c.live[rows - 1] = 0;
          c.exact.assign(rows, 0);
          for (std::uint32_t r = 2; r < rows; r += 9) c.exact[r] = 1;
          ASSERT_NO_FATAL_FAILURE(check(c));
        }
}

// Field report 12: live rows 5 in a bucket of 8 give the plan of 5 rows.
TEST_F(CudaRoute, PaddingChangesNothing) {
  RoutingCase padded = random_case(3, 8);
  RoutingCase eager = padded;
  eager.logits.resize(std::size_t{5} * 64);
  eager.live.resize(5);
  for (std::uint32_t r = 5; r < 8; ++r) {
    padded.live[r] = 0;
    for (float& z : padded.row(r)) z = std::nanf("");
  }
  RoutedBatch a(padded), b(eager);
  a.decode();
  b.decode();
  const ExpertPlan in_bucket = a.plan(), alone = b.plan();
  EXPECT_EQ(in_bucket.active, alone.active);
  EXPECT_EQ(in_bucket.row_of, alone.row_of);
  expect_same_stats(in_bucket.stats, alone.stats);
  EXPECT_TRUE(std::equal(alone.weights.begin(), alone.weights.end(), in_bucket.weights.begin()));
}

TEST_F(CudaRoute, RecordedLogits) {
  const RecordedLogits recorded = sample_logits();
  for (const PolicyKind kind : kDevicePolicies)
    for (std::size_t layer = 0; layer < recorded.layers; ++layer)
      for (const std::size_t rows : {1U, 4U, 16U, 32U, 64U}) {
        RoutingCase c{.policy = {.kind = kind}, .logits = {}, .live = {}, .exact = {}};
        for (std::size_t i = 0; i < rows; ++i) c.add_row(recorded.row(layer, i, 0));
        ASSERT_NO_FATAL_FAILURE(check(c));
      }
}

// What is said before the plan is there comes true; and of every row at least its first expert is said.
TEST_F(CudaRoute, HintsAtExpertsThatBecomeActive) {
  ASSERT_EQ(kernels_of_device(), KernelSet::kHopper) << "the portable kernels give none: leave this test out";
  std::uint32_t seed = 1;
  for (const PolicyKind kind : kDevicePolicies)
    for (const std::uint32_t rows : {1U, 3U, 16U, 17U, 64U}) {
      const RoutingCase c = random_case(seed++, rows, {.experts = 128, .top_k = 8}, kind);
      SCOPED_TRACE(describe(c));
      RoutedBatch batch(c);
      batch.decode();
      const std::vector<std::uint32_t> active = batch.plan().active;
      const std::vector<std::uint32_t> hints = batch.hints();
      for (std::size_t i = 0; i < hints.size(); ++i) {
        ASSERT_TRUE(i >= rows || hints[i] != 0) << "row " << i;
        ASSERT_TRUE(hints[i] == 0 || std::ranges::binary_search(active, hints[i] - 1)) << "hint " << i;
      }
    }
}

// off and lynx have kernels of their own, but where marks are asked for: plans are the same.
TEST_F(CudaRoute, MarksChangeNoPlan) {
  std::uint32_t seed = 1;
  for (const PolicyKind kind : kDevicePolicies)
    for (const std::uint32_t experts : {64U, 128U, 256U, 512U})
      for (const std::uint32_t rows : {1U, 16U, 17U, 64U}) {
        const RoutingCase c = random_case(seed++, rows, {.experts = experts, .top_k = 8}, kind);
        DeviceArray<std::uint64_t> marks(kMaxRouteRows * kRouteMarks);  // no block has less than a row
        RoutedBatch batch(c);
        batch.decode(marks.get());
        ASSERT_NO_FATAL_FAILURE(expect_same(c, batch));
        ASSERT_NO_FATAL_FAILURE(expect_same_rows(c, batch));
      }
}

TEST_F(CudaRoute, PrefillOfAnyLength) {
  for (const RouterShape& shape : kShapes)
    for (const std::uint32_t rows : {1U, 65U, 300U, 1000U}) {
      RoutingCase c = random_case(rows, rows, shape, PolicyKind::kOff);
      if (rows > 64) c.row(17)[0] = std::nanf("");
      for (std::uint32_t r = rows - rows / 10; r < rows; ++r) c.live[r] = 0;
      RoutedBatch batch(c);
      batch.prefill();
      ASSERT_NO_FATAL_FAILURE(expect_same(c, batch));
    }
}

TEST(CudaRouteLimits, NameTheField) {
  EXPECT_TRUE(check_route({.experts = 512, .top_k = 32}).ok());
  EXPECT_TRUE(check_route({.experts = 16, .top_k = 1}, PolicyKind::kEnergy).ok());
  EXPECT_NE(check_route({.experts = 513, .top_k = 8}).error().message.find("experts"), std::string::npos);
  EXPECT_NE(check_route({.experts = 64, .top_k = 33}).error().message.find("top_k"), std::string::npos);
  for (const PolicyKind kind : {PolicyKind::kSweep, PolicyKind::kDenyRank})
    EXPECT_NE(check_route({.experts = 64, .top_k = 8}, kind).error().message.find(to_string(kind)),
              std::string::npos);
}

}  // namespace
}  // namespace lynx::cuda
