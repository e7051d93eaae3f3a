// lynx.exact: with greedy decoding, the tokens of a request are those of a run alone, whatever company it
// keeps.
#include <gtest/gtest.h>

#include <random>

#include "services/engine/kv_cache.h"
#include "services/engine/moe_transformer.h"
#include "services/engine/monolith.h"
#include "tests/support/paths.h"

namespace lynx {
namespace {

constexpr std::uint32_t kRequests = 100;

class ExactTier : public ::testing::TestWithParam<PolicyKind> {
 protected:
  ExactTier() {
    std::mt19937 random(7);
    for (std::uint32_t i = 0; i < 2 * kRequests; ++i) {
      MonolithRequest r;
      for (std::uint32_t n = 4 + random() % 24; n > 0; --n) r.prompt.push_back(3 + random() % 253);
      r.sampling.temperature = 0;
      r.sampling.max_tokens = 4 + random() % 16;
      r.sampling.ignore_eos = true;
      r.sampling.exact = i % 2 == 0;  // every other request is company
      requests_.push_back(std::move(r));
    }
  }
  // Low settings, so that company is remapped a lot.
  RoutePolicy policy() const {
    return {.kind = GetParam(), .window = 0.05F, .share = 2, .keep = 1, .budget = 3, .energy = 8};
  }
  std::vector<std::vector<TokenId>> run(std::span<const MonolithRequest> requests, const RoutePolicy& policy,
                                        std::uint32_t batch) {
    PageLayout layout = page_layout(model_->config(), 0, 8, KvDtype::kF32);
    layout.blocks = 64 * 8;
    KvCache cache(layout);
    std::vector<std::vector<TokenId>> out;
    for (const auto& o :
         run_monolith(*model_, cache, {{.max_batch = batch, .chunk_tokens = 32}, policy}, requests)) {
      EXPECT_TRUE(o.status.ok());
      out.emplace_back();
      for (const auto& t : o.tokens) out.back().push_back(t.token);
    }
    return out;
  }

  const std::unique_ptr<Model> model_ = load_model(source_path("tests/golden/tiny_gqa"));
  std::vector<MonolithRequest> requests_;
};

// Field report 14.
TEST_P(ExactTier, AHundredRequestsInRandomCompanyGetTheTokensOfARunAlone) {
  const auto together = run(requests_, policy(), 16);
  std::size_t company_differs = 0;
  for (std::uint32_t i = 0; i < requests_.size(); ++i) {
    const auto alone = run(std::span(requests_).subspan(i, 1), {.kind = PolicyKind::kOff}, 1).at(0);
    if (requests_[i].sampling.exact)
      EXPECT_EQ(together[i], alone) << "request " << i;
    else
      company_differs += together[i] != alone ? 1 : 0;
  }
  EXPECT_GT(company_differs, 0u) << "a test of exactness needs company that is remapped";
}

INSTANTIATE_TEST_SUITE_P(Policies, ExactTier,
                         ::testing::Values(PolicyKind::kLynx, PolicyKind::kEnergy, PolicyKind::kShare,
                                           PolicyKind::kOea, PolicyKind::kXshare, PolicyKind::kTopKReduced),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace lynx
