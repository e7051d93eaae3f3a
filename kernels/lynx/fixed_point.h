// Router probabilities in integers, so that CPU and CUDA plans agree bit for bit.
//
// exp() differs between math libraries, and a float sum depends on its order. So nothing here calls exp, and
// everything that is summed over rows or experts is an unsigned integer. The float operations that remain are
// single and correctly rounded on every IEEE machine: one subtraction (gap), one product (alpha * gap), exact
// scalings by powers of two, integer -> f32 conversions and divisions. None of them can be contracted into an
// FMA.
//
// A *mass* is a probability up to a row's constant, Q31: kMassOne stands for 1. Relative error of exp_minus
// against the real exponential: at most 2^-27 plus one unit of 2^-31. A sum of up to 2^33 masses fits 64
// bits.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define LYNX_HOST_DEVICE __host__ __device__
#else
#define LYNX_HOST_DEVICE
#endif

namespace lynx {

constexpr std::uint32_t kMassOne = 1U << 31;

// How far z lies below the row's maximum, in nats: >= 0, +inf for z = -inf. Equal infinities have gap 0.
LYNX_HOST_DEVICE inline float gap_below(float max, float z) { return z == max ? 0.0F : max - z; }

// AffinityBinning: min(floor(alpha * gap), last). Bin 0 is closest. A gap without a bin (inf * 0) counts as
// far.
LYNX_HOST_DEVICE inline std::uint32_t affinity_bin(float gap, float alpha, std::uint32_t last) {
  const float scaled = alpha * gap;
  return scaled < static_cast<float>(last) ? static_cast<std::uint32_t>(scaled) : last;
}

LYNX_HOST_DEVICE inline std::uint32_t high_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
#endif
}

// e^-gap, Q31. gap >= 0. Without branches: a GPU's lanes have gaps of all kinds.
LYNX_HOST_DEVICE inline std::uint32_t exp_minus(float gap) {
  const bool far = !(gap < 22.0F);  // e^-22 < 2^-31
  // gap / ln 2 = whole + fraction, from a Q27 gap and a Q31 log2(e): Q58.
  const auto gap_q27 = static_cast<std::uint32_t>((far ? 0.0F : gap) * 134217728.0F);
  const std::uint64_t halvings_q58 = std::uint64_t{gap_q27} * 3098164009U;
  const auto whole = static_cast<std::uint32_t>(halvings_q58 >> 58);
  const auto fraction_q32 = static_cast<std::uint32_t>(halvings_q58 >> 26);
  // 2^-fraction = 2^u / 2 with u = 1 - fraction: a polynomial whose coefficients (Q32) are all positive, with
  // the ends fixed at 1 and 2; least maximum error on [0, 1], 2^-32.5.
  // The coefficients sum to 2^32 and u < 1, so every step but the last fits 32 bits: one multiplication each.
  const std::uint32_t u = ~fraction_q32;
  std::uint32_t power = 93071U;
  power = 614890U + high_product(power, u);
  power = 5765409U + high_product(power, u);
  power = 41292941U + high_product(power, u);
  power = 238391798U + high_product(power, u);
  power = 1031764711U + high_product(power, u);
  power = 2977044476U + high_product(power, u);
  // 2^u in 33 bits, of which the first is 1; rounded to 31.
  const std::uint32_t below_one = high_product(power, u);
  const std::uint32_t tail = ((1U << 30) + (below_one >> 2) + (below_one >> 1 & 1)) >> whole;
  return gap == 0.0F ? kMassOne : far ? 0 : tail;
}

// 1 / (1 + e^-z), Q31. tail: e^-|z|.
LYNX_HOST_DEVICE inline std::uint32_t sigmoid_of_tail(float z, std::uint32_t tail) {
  const std::uint64_t numerator = z < 0.0F ? tail : kMassOne;
  return static_cast<std::uint32_t>((numerator << 31) / (std::uint64_t{kMassOne} + tail));
}
LYNX_HOST_DEVICE inline std::uint32_t sigmoid_mass(float z) {
  return sigmoid_of_tail(z, exp_minus(z < 0.0F ? -z : z));
}

}  // namespace lynx
