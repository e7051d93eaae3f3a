// The device's sampling against the engine's own sampler, which is the reference.
#include "kernels/cuda/sampling.h"

#include <limits>

#include "services/engine/counter_rng.h"
#include "services/engine/sampler.h"
#include "tests/kernels/cuda/parity.h"

namespace lynx::cuda {
namespace {

constexpr std::uint64_t kPosition = 3;  // of the token drawn: three tokens come before

struct Batch {
  std::uint32_t vocab;
  std::vector<float> logits;
  std::vector<SamplingParams> params;

  std::span<const float> row(std::size_t r) const { return std::span(logits).subspan(r * vocab, vocab); }

  std::vector<SampledRow> on_device(std::uint32_t live) const {
    const auto rows = static_cast<std::uint32_t>(params.size());
    std::vector<SamplingRow> how;
    for (const SamplingParams& p : params)
      how.push_back({.uniform = uniform_at(p.seed, kPosition),
                     .temperature = p.temperature,
                     .top_p = p.top_p,
                     .min_p = p.min_p,
                     .top_k = p.top_k});
    const DeviceMatrix matrix(Dtype::kF32, rows, vocab, logits, 4);
    const DeviceArray<SamplingRow> records(how);
    const DeviceArray<SampledRow> out(rows);
    const DeviceArray<std::byte> workspace(sample_workspace(rows));
    const DeviceArray<std::uint32_t> count(std::vector<std::uint32_t>{live});
    sample({matrix.view(), records.get(), out.get(), count.get(), workspace.get()}, nullptr);
    return out.download();
  }
  Result<SampledTokenData> on_host(std::size_t r) const {
    const std::vector<TokenId> before(kPosition, 1);
    Sampler sampler;
    SamplingParams asked = params[r];
    asked.logprobs = true;
    return sampler.sample(row(r), asked, {before, kPosition, {}});
  }
};

struct Settings {
  float temperature = 1;
  std::uint32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;
};
SamplingParams params_of(const Settings& s) {
  SamplingParams out;
  out.temperature = s.temperature;
  out.top_k = s.top_k;
  out.top_p = s.top_p;
  out.min_p = s.min_p;
  out.seed = s.seed;
  return out;
}

// A peak and a long tail, as a language model's.
std::vector<float> model_like_logits(std::size_t count, std::uint64_t seed) {
  std::vector<float> out = random_floats(count, seed, 1.5F);
  const std::vector<float> peaks = random_floats(40, seed + 1, 2);
  const std::vector<float> places = random_floats(40, seed + 2);
  for (std::size_t i = 0; i < peaks.size(); ++i)
    out[static_cast<std::size_t>(std::abs(places[i]) * 1e6F) % count] = 6 + peaks[i];
  return out;
}

class CudaSampling : public GpuTest {
 protected:
  // Every row as the engine's sampler has it. Both sides round exponentials differently in the last bit, so a
  // draw that falls on such a bit may go to a neighbour: one in a thousand is let through, and one in
  // a small batch.
  static void expect_equal(const Batch& batch) {
    const auto out = batch.on_device(static_cast<std::uint32_t>(batch.params.size()));
    std::size_t different = 0;
    for (std::size_t r = 0; r < out.size(); ++r) {
      const auto reference = batch.on_host(r);
      ASSERT_TRUE(reference.ok());
      ASSERT_EQ(out[r].unusable, 0U);
      ASSERT_LT(out[r].token, batch.vocab);
      if (out[r].token != reference.value().token) {
        ++different;
        EXPECT_GE(batch.params[r].temperature, 1e-5F) << "greedy has no such excuse";
        continue;
      }
      EXPECT_NEAR(out[r].logprob, reference.value().logprob, 1e-3) << "row " << r;
    }
    EXPECT_LE(different, std::max<std::size_t>(1, batch.params.size() / 1000))
        << "of " << batch.params.size();
  }
  static Batch batch(std::uint32_t rows, std::uint32_t vocab, const Settings& settings) {
    Batch out{vocab, model_like_logits(std::size_t{rows} * vocab, fresh_seed()), {}};
    out.params.assign(rows, params_of(settings));
    for (SamplingParams& p : out.params) p.seed = fresh_seed();
    return out;
  }
};

TEST_F(CudaSampling, GreedyIsTheFirstMaximum) {
  for (const std::uint32_t vocab : {5U, 8192U, 151936U}) {
    Batch b = batch(9, vocab, {.temperature = 0});
    b.logits[2 * vocab + 4] = b.logits[2 * vocab + 1] = 50;  // a tie
    b.logits[3 * vocab + vocab - 1] = 60;
    expect_equal(b);
    EXPECT_EQ(b.on_device(9)[2].token, 1U);
  }
}

TEST_F(CudaSampling, EverySettingDrawsAsTheSamplerDoes) {
  const Settings all[] = {
      {.temperature = 1},
      {.temperature = 0.7F, .top_p = 0.9F},
      {.temperature = 1, .top_k = 50},
      {.temperature = 1.3F, .top_k = 40, .top_p = 0.95F},
      {.temperature = 1, .min_p = 0.05F},
      {.temperature = 0.8F, .top_k = 200, .top_p = 0.8F, .min_p = 0.01F},
      {.temperature = 1, .top_k = 1},
      {.temperature = 1, .top_p = 1e-6F},
      {.temperature = 5, .top_k = 3000, .top_p = 0.99F},
      {.temperature = 0.01F, .top_p = 0.5F},
  };
  for (const Settings& params : all) {
    SCOPED_TRACE("temperature " + std::to_string(params.temperature) + ", top_k " +
                 std::to_string(params.top_k) + ", top_p " + std::to_string(params.top_p) + ", min_p " +
                 std::to_string(params.min_p));
    expect_equal(batch(1000, 2000, params));
    expect_equal(batch(8, 151936, params));
  }
}

// Equal logits: the smaller ids win, and bins overflow.
TEST_F(CudaSampling, TiesGoToTheSmallerIds) {
  Batch b{5000, std::vector<float>(4 * 5000, 1.5F), {}};
  for (const Settings& settings :
       {Settings{.top_k = 2500, .seed = 1}, Settings{.top_k = 7, .seed = 2},
        Settings{.top_p = 0.3F, .seed = 3}, Settings{.top_k = 4000, .top_p = 0.5F, .seed = 4}})
    b.params.push_back(params_of(settings));
  for (std::size_t i = 0; i < 5000; i += 2) b.logits[i] = b.logits[10000 + i] = 1;
  const auto out = b.on_device(4);
  for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(out[r].token, b.on_host(r).value().token) << "row " << r;
}

TEST_F(CudaSampling, BannedTokensAreNeverDrawn) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  Batch b{300, std::vector<float>(3 * 300, kMinusInfinity), {}};
  b.params = {params_of({}), params_of({.temperature = 0}), params_of({.top_k = 5, .top_p = 0.9F})};
  for (const std::size_t r : {0U, 1U, 2U}) b.logits[r * 300 + 17 + r] = -3;
  const auto out = b.on_device(3);
  for (std::uint32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(out[r].token, 17 + r);
    EXPECT_EQ(out[r].unusable, 0U);
  }
}

TEST_F(CudaSampling, RowsThatAreNotNumbersAreReported) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Batch b = batch(6, 1000, {.temperature = 1});
  b.params[1].temperature = 0;
  b.logits[0 * 1000 + 999] = std::numeric_limits<float>::quiet_NaN();
  b.logits[1 * 1000 + 500] = kInfinity;
  for (std::size_t i = 0; i < 1000; ++i) b.logits[2 * 1000 + i] = -kInfinity;
  const auto out = b.on_device(6);
  for (std::size_t r = 0; r < 6; ++r) {
    EXPECT_EQ(out[r].unusable, r < 3 ? 1U : 0U) << "row " << r;
    EXPECT_EQ(b.on_host(r).ok(), r >= 3) << "row " << r;
  }
}

TEST_F(CudaSampling, PaddingAndHostRowsStay) {
  Batch b = batch(4, 1000, {.temperature = 0});
  const auto out = b.on_device(2);
  EXPECT_EQ(out[1].unusable, 0U);
  for (const std::size_t r : {2U, 3U}) EXPECT_EQ(out[r].token, 0xFFFFFFFFU) << "padding row " << r;

  const DeviceMatrix logits(Dtype::kF32, 2, 1000,
                            std::vector<float>(b.logits.begin(), b.logits.begin() + 2000));
  const DeviceArray<SamplingRow> how(std::vector<SamplingRow>{{.on_device = 0}, {.on_device = 1}});
  const DeviceArray<SampledRow> result(2);
  const DeviceArray<std::byte> workspace(sample_workspace(2));
  sample({logits.view(), how.get(), result.get(), nullptr, workspace.get()}, nullptr);
  const auto rows = result.download();
  EXPECT_EQ(rows[0].token, 0xFFFFFFFFU) << "a row for the host";
  EXPECT_EQ(rows[1].unusable, 0U);
}

TEST_F(CudaSampling, ARowsTokenDoesNotDependOnTheBatch) {
  const Batch all = batch(64, 8192, {.temperature = 1, .top_p = 0.9F});
  const auto together = all.on_device(64);
  for (const std::size_t r : {0U, 13U, 63U}) {
    const Batch one{8192, {all.row(r).begin(), all.row(r).end()}, {all.params[r]}};
    const SampledRow alone = one.on_device(1)[0];
    EXPECT_EQ(alone.token, together[r].token);
    EXPECT_EQ(alone.logprob, together[r].logprob);
  }
}

}  // namespace
}  // namespace lynx::cuda
