// exp, silu and sums over Lanes. Included after one lanes_*.h.
#pragma once

namespace lynx {
namespace {

// e^x to about 1 unit in the last place; 0 below -87.3 (no denormals), clamped above 88.3. NaN stays NaN.
inline Lanes exp_lanes(Lanes x) {
  const Lanes lowest = splat(-87.33F);
  // Operand order: min and max return the second operand for a NaN.
  const Lanes clamped = min(splat(88.3F), max(lowest, x));
  const Lanes n = round_even(mul(clamped, splat(1.44269504F)));  // x = n ln 2 + r, |r| <= ln(2) / 2
  Lanes r = fma(n, splat(-0.693359375F), clamped);  // ln 2 in two parts, the first exact in few bits
  r = fma(n, splat(2.12194440e-4F), r);
  Lanes p = splat(1.0F / 5040);  // Taylor series: the next term is below 6e-9
  p = fma(p, r, splat(1.0F / 720));
  p = fma(p, r, splat(1.0F / 120));
  p = fma(p, r, splat(1.0F / 24));
  p = fma(p, r, splat(1.0F / 6));
  p = fma(p, r, splat(0.5F));
  p = fma(p, r, splat(1.0F));
  p = fma(p, r, splat(1.0F));
  return mul(p, power_of_two(n));
}

inline Lanes silu(Lanes x) { return div(x, add(splat(1.0F), exp_lanes(sub(zero(), x)))); }

// Pairs that are 8, 4, 2, 1 apart: one order on every machine.
inline float sum(Lanes a) {
  float v[16];
  store(v, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}

inline float largest(Lanes a) {
  float v[16];
  store(v, a);
  float out = v[0];
  for (int i = 1; i < 16; ++i) out = v[i] > out ? v[i] : out;
  return out;
}

inline void rms_norm(float* out, const float* x, const float* weight, std::uint32_t n, float eps) {
  Lanes squares = zero();
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    const Lanes v = load(x + i);
    squares = fma(v, v, squares);
  }
  const Lanes scale = splat(1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps));
  for (std::uint32_t i = 0; i < n; i += kLanes)
    store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
}

// Plain loops: each element is on its own, so the compiler may vectorise as it likes.
inline void rope(float* head, const float* angles, std::uint32_t n) {
  const std::uint32_t half = n / 2;
  for (std::uint32_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[half + i];
    head[i] = a * angles[i] - b * angles[half + i];
    head[half + i] = b * angles[i] + a * angles[half + i];
  }
}

inline void widen(float* out, const std::uint16_t* x, std::uint32_t n) {
  std::uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load_bf16(x + i));
  for (; i < n; ++i) out[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(x[i]) << 16);
}

}  // namespace
}  // namespace lynx
