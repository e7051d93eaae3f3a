// Sixteen f32 lanes in two AVX2 registers. Included by avx2.cc alone.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lynx {
namespace {

struct Lanes {
  __m256 lo, hi;
};

inline Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Lanes splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Lanes sub(Lanes a, Lanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Lanes mul(Lanes a, Lanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Lanes div(Lanes a, Lanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Lanes max(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Lanes min(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Lanes round_even(Lanes a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
inline __m256 power_of_two_half(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
// 2^n for whole n in [-126, 127].
inline Lanes power_of_two(Lanes n) { return {power_of_two_half(n.lo), power_of_two_half(n.hi)}; }
// a where x >= bound, else 0.
inline Lanes keep_from(Lanes x, Lanes bound, Lanes a) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, bound.lo, _CMP_GE_OQ), a.lo),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, bound.hi, _CMP_GE_OQ), a.hi)};
}

inline __m256 widen_half(const std::uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
inline Lanes load_bf16(const std::uint16_t* p) { return {widen_half(p), widen_half(p + 8)}; }
// 16 pairs of bf16: low halves and high halves.
inline void load_pairs(const std::uint16_t* p, Lanes& low, Lanes& high) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  low = {_mm256_castsi256_ps(_mm256_slli_epi32(first, 16)),
         _mm256_castsi256_ps(_mm256_slli_epi32(second, 16))};
  high = {_mm256_castsi256_ps(_mm256_and_si256(first, upper)),
          _mm256_castsi256_ps(_mm256_and_si256(second, upper))};
}

inline void transpose8(const __m256 (&rows)[8], float* out, std::size_t stride) {
  __m256 a[8];
  __m256 b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {  // b[i + j] holds columns j and j + 4 of rows i .. i+3
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0x44);
      b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0xEE);
    }
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(out + j * stride, _mm256_permute2f128_ps(b[j], b[4 + j], 0x20));
    _mm256_storeu_ps(out + (4 + j) * stride, _mm256_permute2f128_ps(b[j], b[4 + j], 0x31));
  }
}
// out[c * stride + r] = rows[r] lane c.
inline void transpose(const Lanes (&rows)[16], float* out, std::size_t stride) {
  for (int half = 0; half < 2; ++half) {
    __m256 left[8];
    __m256 right[8];
    for (int i = 0; i < 8; ++i) {
      left[i] = rows[8 * half + i].lo;
      right[i] = rows[8 * half + i].hi;
    }
    transpose8(left, out + 8 * half, stride);
    transpose8(right, out + 8 * stride + 8 * half, stride);
  }
}

}  // namespace
}  // namespace lynx
