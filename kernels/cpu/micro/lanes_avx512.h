// Sixteen f32 lanes in one AVX-512 register. Included by avx512.cc alone.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lynx {
namespace {

struct Lanes {
  __m512 v;
};

inline Lanes zero() { return {_mm512_setzero_ps()}; }
inline Lanes splat(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
inline Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes sub(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes mul(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes div(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes max(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes min(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes round_even(Lanes a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for whole n in [-126, 127].
inline Lanes power_of_two(Lanes n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
// a where x >= bound, else 0.
inline Lanes keep_from(Lanes x, Lanes bound, Lanes a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_GE_OQ), a.v)};
}

inline Lanes load_bf16(const std::uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
// 16 pairs of bf16: low halves and high halves.
inline void load_pairs(const std::uint16_t* p, Lanes& low, Lanes& high) {
  const __m512i pairs = _mm512_loadu_si512(p);
  low.v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  high.v = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

// out[c * stride + r] = rows[r] lane c.
inline void transpose(const Lanes (&rows)[16], float* out, std::size_t stride) {
  __m512 a[16];
  __m512 b[16];
  for (int i = 0; i < 16; i += 2) {  // pairs of rows, 32-bit interleave
    a[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 16;
       i += 4) {  // groups of four rows, 64-bit interleave: b[i + j] holds columns j, j+4, j+8, j+12
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(a[i + j]);
      const __m512d high = _mm512_castps_pd(a[i + 2 + j]);
      b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  for (int j = 0; j < 4; ++j) {  // 4 x 4 transpose of 128-bit quarters
    const __m512 low01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xEE);
    const __m512 low23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(b[8 + j], b[12 + j], 0xEE);
    _mm512_storeu_ps(out + j * stride, _mm512_shuffle_f32x4(low01, low23, 0x88));
    _mm512_storeu_ps(out + (4 + j) * stride, _mm512_shuffle_f32x4(low01, low23, 0xDD));
    _mm512_storeu_ps(out + (8 + j) * stride, _mm512_shuffle_f32x4(high01, high23, 0x88));
    _mm512_storeu_ps(out + (12 + j) * stride, _mm512_shuffle_f32x4(high01, high23, 0xDD));
  }
}

}  // namespace
}  // namespace lynx
