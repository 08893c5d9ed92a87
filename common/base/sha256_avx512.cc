// Built for AVX-512; may include nothing with external inline functions.
#include "common/base/sha256_avx512.h"

#include <immintrin.h>

namespace tandem {
namespace {

using V = __m512i;  // a word of each lane

alignas(64) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

inline V Add(V a, V b) { return _mm512_add_epi32(a, b); }
inline V Xor3(V a, V b, V c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
inline V Choose(V a, V b, V c) { return _mm512_ternarylogic_epi32(a, b, c, 0xca); }
inline V Majority(V a, V b, V c) { return _mm512_ternarylogic_epi32(a, b, c, 0xe8); }

inline void Round(V a, V b, V c, V& d, V e, V f, V g, V& h, V w, const uint32_t& k) {
  const V sum1 = Xor3(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
  const V sum0 = Xor3(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
  const V wk = Add(w, _mm512_set1_epi32(static_cast<int32_t>(k)));
  h = Add(Add(h, wk), Add(sum1, Choose(e, f, g)));
  d = Add(d, h);
  h = Add(h, Add(sum0, Majority(a, b, c)));
}

// The message's word sixteen after w0, from those 0, 1, 9 and 14 after it.
inline V Expand(V w0, V w1, V w9, V w14) {
  const V sigma0 =
      Xor3(_mm512_ror_epi32(w1, 7), _mm512_ror_epi32(w1, 18), _mm512_srli_epi32(w1, 3));
  const V sigma1 =
      Xor3(_mm512_ror_epi32(w14, 17), _mm512_ror_epi32(w14, 19), _mm512_srli_epi32(w14, 10));
  return Add(Add(w0, sigma0), Add(w9, sigma1));
}

inline void EightRounds(V (&s)[8], const V* w, const uint32_t* k) {
  Round(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], w[0], k[0]);
  Round(s[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], w[1], k[1]);
  Round(s[6], s[7], s[0], s[1], s[2], s[3], s[4], s[5], w[2], k[2]);
  Round(s[5], s[6], s[7], s[0], s[1], s[2], s[3], s[4], w[3], k[3]);
  Round(s[4], s[5], s[6], s[7], s[0], s[1], s[2], s[3], w[4], k[4]);
  Round(s[3], s[4], s[5], s[6], s[7], s[0], s[1], s[2], w[5], k[5]);
  Round(s[2], s[3], s[4], s[5], s[6], s[7], s[0], s[1], w[6], k[6]);
  Round(s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[0], w[7], k[7]);
}

inline void ExpandSixteen(V (&w)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    w[i] = Expand(w[i], w[(i + 1) & 15], w[(i + 9) & 15], w[(i + 14) & 15]);
  }
}

// Word i of each lane's 64 bytes, most significant byte first, as w[i].
inline void LoadBlock(const uint8_t* const* lanes, int64_t offset, V (&w)[16]) {
  const V swap = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));
  V a[16];
  V b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    a[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(lanes[i] + offset), swap);
  }
  // Four lanes by four words inside each quarter of a vector; then the quarters.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const V ab_low = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    const V ab_high = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    const V cd_low = _mm512_unpacklo_epi32(a[i + 2], a[i + 3]);
    const V cd_high = _mm512_unpackhi_epi32(a[i + 2], a[i + 3]);
    b[i] = _mm512_unpacklo_epi64(ab_low, cd_low);
    b[i + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    b[i + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    b[i + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const V low01 = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x44);
    const V low23 = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x44);
    const V high01 = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xee);
    const V high23 = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xee);
    w[i] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    w[i + 4] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    w[i + 8] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    w[i + 12] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
}

}  // namespace

void Sha256Avx512(uint32_t (*state)[16], const uint8_t* const* lanes, int64_t blocks) {
  V s[8];
  for (int i = 0; i < 8; ++i) s[i] = _mm512_loadu_si512(state[i]);
  for (int64_t block = 0; block < blocks; ++block) {
    V w[16];
    V old[8];
    LoadBlock(lanes, block * 64, w);
    for (int i = 0; i < 8; ++i) old[i] = s[i];
    for (int round = 0; round < 48; round += 16) {
      EightRounds(s, w, kRound + round);
      EightRounds(s, w + 8, kRound + round + 8);
      ExpandSixteen(w);
    }
    EightRounds(s, w, kRound + 48);
    EightRounds(s, w + 8, kRound + 56);
    for (int i = 0; i < 8; ++i) s[i] = Add(s[i], old[i]);
  }
  for (int i = 0; i < 8; ++i) _mm512_storeu_si512(state[i], s[i]);
}

}  // namespace tandem
