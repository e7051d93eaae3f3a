// Sixteen f32 lanes as a plain array, for machines without AVX2. Products are rounded before they are added
// here.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace lynx {
namespace {

struct Lanes {
  float v[16];
};

template <typename Op>
inline Lanes each(const Op& op) {
  Lanes out;
  for (int i = 0; i < 16; ++i) out.v[i] = op(i);
  return out;
}

inline Lanes splat(float x) {
  return each([&](int) { return x; });
}
inline Lanes zero() { return splat(0); }
inline Lanes load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline void store(float* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline Lanes add(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Lanes sub(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Lanes mul(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Lanes div(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline Lanes max(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes min(const Lanes& a, const Lanes& b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Lanes round_even(const Lanes& a) {
  return each([&](int i) { return std::nearbyint(a.v[i]); });
}
// 2^n for whole n in [-126, 127].
inline Lanes power_of_two(const Lanes& n) {
  return each([&](int i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<int>(n.v[i]) + 127) << 23);
  });
}
// a where x >= bound, else 0.
inline Lanes keep_from(const Lanes& x, const Lanes& bound, const Lanes& a) {
  return each([&](int i) { return x.v[i] >= bound.v[i] ? a.v[i] : 0; });
}

inline Lanes load_bf16(const std::uint16_t* p) {
  return each([&](int i) { return bf16_to_f32(p[i]); });
}
// 16 pairs of bf16: low halves and high halves.
inline void load_pairs(const std::uint16_t* p, Lanes& low, Lanes& high) {
  low = each([&](int i) { return bf16_to_f32(p[2 * i]); });
  high = each([&](int i) { return bf16_to_f32(p[2 * i + 1]); });
}

// out[c * stride + r] = rows[r] lane c.
inline void transpose(const Lanes (&rows)[16], float* out, std::size_t stride) {
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 16; ++c) out[c * stride + r] = rows[r].v[c];
  }
}

}  // namespace
}  // namespace lynx
