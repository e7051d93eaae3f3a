// The routing kernels as they stand, on the CPU: plans and statistics against route_reference, bit for bit,
// for random batches, each under several schedules of its threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/timeline.h"
#include "tests/kernels/cuda/route_parity.h"
#include "tests/kernels/cuda_on_cpu/emulator.h"

namespace lynx::cuda {
namespace {

KernelSet kernels = KernelSet::kHopper;

}  // namespace

KernelSet kernels_of_device() { return kernels; }

namespace {

constexpr std::uint32_t kSchedules = 3;

const std::vector<RouterShape> kShapes{
    {.experts = 64, .top_k = 8},  {.experts = 128, .top_k = 8},  {.experts = 8, .top_k = 2},
    {.experts = 256, .top_k = 8}, {.experts = 512, .top_k = 10}, {.experts = 60, .top_k = 4},
    {.experts = 33, .top_k = 32}, {.experts = 1, .top_k = 1},    {.experts = 16, .top_k = 1}};

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : rng_(seed) {}

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(rng_() % end); }
  std::uint32_t within(std::uint32_t first, std::uint32_t last) { return first + below(last - first + 1); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  float of(std::initializer_list<float> values) {
    return values.begin()[below(static_cast<std::uint32_t>(values.size()))];
  }

  RouterShape shape() {
    RouterShape shape = kShapes[below(static_cast<std::uint32_t>(kShapes.size()))];
    if (one_in(3)) {
      shape.experts = within(1, one_in(4) ? 512 : 130);
      shape.top_k = within(1, std::min(shape.experts, one_in(4) ? 32U : 8U));
    }
    if (one_in(6)) shape.top_k = 1;
    shape.norm_topk_prob = one_in(2);
    shape.kind = one_in(3) ? RouterKind::kSigmoid : RouterKind::kSoftmax;
    return shape;
  }

  RoutePolicy policy(const RouterShape& shape) {
    RoutePolicy policy{.kind = kDevicePolicies[below(static_cast<std::uint32_t>(kDevicePolicies.size()))]};
    if (shape.top_k == 1 && one_in(2)) policy.kind = PolicyKind::kEnergy;  // a rule of its own there
    policy.weights = some_weight_rule(below(3));
    policy.window = of({0, 0.01F, 0.2F, 1, 4});
    policy.share = of({0.1F, 0.8F, 2, 8});
    policy.keep = within(1, shape.top_k);
    policy.budget = one_in(3) ? 0 : within(1, one_in(2) ? shape.experts : std::min(shape.experts, 3U));
    policy.energy = of({0.1F, 1, 8});
    return policy;
  }

  RoutingCase batch(std::uint32_t rows) {
    RoutingCase c{.shape = shape(), .policy = {}, .logits = {}, .live = {}, .exact = {}};
    c.policy = policy(c.shape);
    // Rows that are much alike leave few experts, so that the active set has to be filled up.
    const auto alike = random_row(rng_, c.shape.experts, of({0, 0.3F, 6}));
    const float spread = of({0.01F, 0.3F, 1.5F, 4});
    for (std::uint32_t r = 0; r < rows; ++r) {
      auto row = random_row(rng_, c.shape.experts, spread);
      for (std::size_t e = 0; e < row.size(); ++e) row[e] += alike[e];
      c.add_row(row);
    }
    if (one_in(4)) make_odd(c);
    if (one_in(3))
      for (std::uint32_t r = rows - below(rows); r < rows; ++r) c.live[r] = 0;
    if (one_in(3)) {
      c.exact.resize(rows);
      for (auto& exact : c.exact) exact = one_in(4) ? 1 : 0;
    }
    if (one_in(4)) {
      const std::uint32_t often = within(1, 8);  // 1: nobody votes
      for (std::uint32_t r = 0; r < rows; ++r)
        if (one_in(often)) c.row(r)[below(c.shape.experts)] = std::nanf("");
    }
    return c;
  }

 private:
  // Ties, zeros of both signs, infinities, rows whose sigmoids all vanish.
  void make_odd(RoutingCase& c) {
    for (float& z : c.logits) {
      z = std::round(z);
      if (z == 0 && one_in(2)) z = -z;
      if (one_in(40)) z = std::numeric_limits<float>::infinity() * (one_in(2) ? 1.0F : -1.0F);
    }
    for (float& z : c.row(below(c.rows()))) z -= 200;
  }

  std::mt19937 rng_;
};

// What was said before the plan was there has come true; nothing is said of rows that do not vote.
void expect_hints_come_true(const RoutingCase& c, const RoutedBatch& batch) {
  const std::vector<std::uint32_t> active = c.plan().active;
  for (const std::uint32_t hint : batch.hints())
    ASSERT_TRUE(hint == 0 || std::ranges::binary_search(active, hint - 1)) << "hint " << hint;
}

class RouteOnCpu : public testing::TestWithParam<KernelSet> {
 protected:
  void SetUp() override { kernels = GetParam(); }
};

void check(const RoutingCase& c, std::uint32_t seed) {
  for (std::uint32_t schedule = 0; schedule < kSchedules; ++schedule) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", schedule " + std::to_string(schedule));
    on_cpu::seed_schedules(seed + schedule);
    RoutedBatch batch(c);
    std::vector<std::uint64_t> marks(kRouteMarks * kMaxRouteRows);
    // With marks, lynx and off take the kernel that all policies share.
    ASSERT_NO_THROW(batch.decode(schedule % 2 == 0 ? nullptr : marks.data()));
    ASSERT_NO_FATAL_FAILURE(expect_same(c, batch));
    ASSERT_NO_FATAL_FAILURE(expect_same_rows(c, batch));
    ASSERT_NO_FATAL_FAILURE(expect_hints_come_true(c, batch));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Every run has other batches; a failure names its seed.
TEST_P(RouteOnCpu, RandomBatches) {
  std::uint32_t seed = std::random_device{}();
  std::printf("first seed %u\n", seed);
  for (std::uint32_t i = 0; i < 100; ++i, seed += kSchedules) {
    Draw draw(seed);
    const std::uint32_t rows = draw.one_in(2) ? draw.within(1, 16) : draw.within(17, kMaxRouteRows);
    ASSERT_NO_FATAL_FAILURE(check(draw.batch(rows), seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, RouteOnCpu, testing::Values(KernelSet::kHopper, KernelSet::kPortable),
                         [](const auto& of) {
                           return of.param == KernelSet::kHopper ? "Hopper" : "Portable";
                         });

TEST(PrefillOnCpu, RandomBatches) {
  std::uint32_t seed = std::random_device{}();
  std::printf("first seed %u\n", seed);
  for (std::uint32_t i = 0; i < 20; ++i, ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    RoutingCase c = draw.batch(draw.within(1, 120));
    c.policy.kind = PolicyKind::kOff;
    c.exact.clear();
    on_cpu::seed_schedules(seed);
    RoutedBatch batch(c);
    ASSERT_NO_THROW(batch.prefill());
    ASSERT_NO_FATAL_FAILURE(expect_same(c, batch));
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace lynx::cuda
