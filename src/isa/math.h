/*!
 * \file math.h
 * \brief exp, ln and friends, the same bits on every host and free of branches so that loops vectorise.
 *
 * Computed in double with a relative error below 2^-50 and rounded once: results are correctly rounded except when
 * the exact value lies within 2^-50 of a tie, that is <= 0.5000001 ulp of float and of half. The vendor states
 * <= 1 ulp for the hardware (facts: Reg vector precision table), so the model never is the less accurate one.
 */
#ifndef TILELANG_ASCEND_ISA_MATH_H_
#define TILELANG_ASCEND_ISA_MATH_H_

#include "simd.h"

namespace tla {
namespace isa {

/*! \brief Round to float so that a second rounding to half (11 bits) is harmless: round to odd. */
TLA_INLINE float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  const uint32_t bits = bit_cast<uint32_t>(nearest);
  const bool inexact = back != value && value == value;
  const bool too_far = std::fabs(back) > std::fabs(value);
  const uint32_t odd = (bits - (too_far ? 1u : 0u)) | 1u;
  return bit_cast<float>(inexact ? odd : bits);
}

/*!
 * \brief d = Fn(s) with Fn in double, rounded once. Stages of one element width each, because loops that mix 16 and
 * 64 bits are not vectorised.
 */
template <class Fn, class T>
TLA_INLINE void map_in_double(T* d, const T* s, int64_t n) {
  if constexpr (std::is_same<T, float>::value) {
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) d[i] = static_cast<float>(Fn::apply(static_cast<double>(s[i])));
  } else {
    constexpr int64_t kStage = 256;
    float stage[kStage];
    for (int64_t done = 0; done < n; done += kStage) {
      const int64_t m = n - done < kStage ? n - done : kStage;
      for (int64_t i = 0; i < m; ++i) stage[i] = load(s[done + i]);
      for (int64_t i = 0; i < m; ++i) stage[i] = round_to_odd(Fn::apply(static_cast<double>(stage[i])));
      for (int64_t i = 0; i < m; ++i) d[done + i] = store<T>(stage[i]);
    }
  }
}

/*! \brief e^x for x that is a float: results outside the float range come out as 0 or a huge number. */
TLA_INLINE double exp64(double x) {
  x = x < -250.0 ? -250.0 : x;
  x = x > 250.0 ? 250.0 : x;
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52;
  const double k = shifted - 0x1.8p52;
  const double r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b39p-40;
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // The low bits of `shifted` hold k; moving them to the exponent field multiplies by 2^k.
  const uint64_t scale = (bit_cast<uint64_t>(shifted) + 1023u) << 52;
  return p * bit_cast<double>(scale);
}

/*! \brief Natural logarithm of x that is a float: ln(+-0) = -inf, ln(negative) = NaN. */
TLA_INLINE double ln64(double x) {
  const uint64_t bits = bit_cast<uint64_t>(x);
  // Subtracting the bits of sqrt(1/2) splits x = 2^e * m with m in [sqrt(1/2), sqrt(2)).
  const uint64_t offset = bits - 0x3fe6a09e667f3bcdull;
  const uint64_t exponent = static_cast<uint64_t>(static_cast<int64_t>(offset) >> 52);
  const double m = bit_cast<double>(bits - (exponent << 52));
  const double e = bit_cast<double>(0x4330000000000000ull | (exponent + 2048)) - (0x1p52 + 2048);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  const double mantissa = 2.0 * s + 2.0 * s * z * p;
  double r = e * 0x1.62e42fefa0000p-1 + (e * 0x1.cf79abc9e3b39p-40 + mantissa);
  r = x == 0.0 ? -std::numeric_limits<double>::infinity() : r;
  r = x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : r;
  r = x > std::numeric_limits<float>::max() ? std::numeric_limits<double>::infinity() : r;
  return x != x ? x : r;
}

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_MATH_H_
