/*!
 * \file dtype.h
 * \brief Element types of the machine: storage formats, exact conversions, rounding modes.
 *
 * Every conversion here is a pure function of the bits, without branches on the fast paths, so that loops over
 * arrays are vectorised by the compiler and give the same bits on every host.
 */
#ifndef TILELANG_ASCEND_ISA_DTYPE_H_
#define TILELANG_ASCEND_ISA_DTYPE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#define TLA_INLINE inline __attribute__((always_inline))

namespace tla {
namespace isa {

/*! \brief Rounding modes of Cast, in the order of the attribute `round`. */
enum class Round : uint8_t { kNone = 0, kRint, kFloor, kCeil, kRound, kTrunc, kOdd };

// Storage types. They hold bits only; arithmetic happens in `Compute<T>`.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

template <class To, class From>
TLA_INLINE To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "size of the two types must agree");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// ---- binary16 ----------------------------------------------------------------------------------------------

TLA_INLINE float to_float(Half h) {
  const uint32_t magnitude = h.bits & 0x7fffu;
  // 13 = 23 - 10 mantissa bits; 2^112 rebases the exponent and is exact for normal and subnormal numbers.
  const float finite = bit_cast<float>(magnitude << 13) * bit_cast<float>(0x77800000u);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t bits = magnitude >= 0x7c00u ? special : bit_cast<uint32_t>(finite);
  return bit_cast<float>(bits | (static_cast<uint32_t>(h.bits & 0x8000u) << 16));
}

/*! \brief Round to nearest even; overflow gives infinity; every NaN becomes the quiet NaN 0x7e00. */
TLA_INLINE Half to_half(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t x = bits & 0x7fffffffu;
  const uint32_t normal = (x + 0xc8000fffu + ((x >> 13) & 1u)) >> 13;
  // One unit in the last place of 0.5 is 2^-24, the spacing of subnormal halves: the addition rounds for us.
  const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(x) + 0.5f) - 0x3f000000u;
  uint32_t r = x < 0x38800000u ? subnormal : normal;
  r = x >= 0x47800000u ? 0x7c00u : r;
  r = x > 0x7f800000u ? 0x7e00u : r;
  return Half{static_cast<uint16_t>(r | sign)};
}

// ---- bfloat16 ----------------------------------------------------------------------------------------------

TLA_INLINE float to_float(BFloat16 b) { return bit_cast<float>(static_cast<uint32_t>(b.bits) << 16); }

/*! \brief Round to nearest even; every NaN becomes the quiet NaN 0x7fc0. */
TLA_INLINE BFloat16 to_bfloat16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  return BFloat16{static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

// ---- rounding of one value to any binary format ----------------------------------------------------------------

/*! \brief Should a magnitude with integer part `t` and fraction `frac` be rounded away from zero? */
TLA_INLINE bool rounds_up(Round mode, bool negative, bool odd, double frac) {
  switch (mode) {
    case Round::kNone:
    case Round::kRint:
      return frac > 0.5 || (frac == 0.5 && odd);
    case Round::kFloor:
      return negative && frac > 0;
    case Round::kCeil:
      return !negative && frac > 0;
    case Round::kRound:
      return frac >= 0.5;
    case Round::kTrunc:
      return false;
    case Round::kOdd:
      return frac > 0 && !odd;
  }
  return false;
}

/*! \brief A binary floating-point format: sign, exponent, `kMantissa` stored bits. `kInf` < 0: no infinity. */
template <class T>
struct Format;
template <>
struct Format<Half> {
  static constexpr int kMantissa = 10, kBias = 15, kInf = 0x7c00, kNaN = 0x7e00;
};
template <>
struct Format<BFloat16> {
  static constexpr int kMantissa = 7, kBias = 127, kInf = 0x7f80, kNaN = 0x7fc0;
};
template <>
struct Format<Float8E5M2> {
  static constexpr int kMantissa = 2, kBias = 15, kInf = 0x7c, kNaN = 0x7e;
};
// e4m3fn has no infinity: what overflows becomes NaN (0x7f).
template <>
struct Format<Float8E4M3> {
  static constexpr int kMantissa = 3, kBias = 7, kInf = 0x7f, kNaN = 0x7f;
};
template <>
struct Format<float> {
  static constexpr int kMantissa = 23, kBias = 127, kInf = 0x7f800000, kNaN = 0x7fc00000;
};

template <int Bytes>
struct UIntOf;
template <>
struct UIntOf<1> {
  using type = uint8_t;
};
template <>
struct UIntOf<2> {
  using type = uint16_t;
};
template <>
struct UIntOf<4> {
  using type = uint32_t;
};
template <>
struct UIntOf<8> {
  using type = uint64_t;
};

/*! \brief Does a finite value beyond the largest number become infinity (true) or stay at the largest number? */
TLA_INLINE bool overflows_to_infinity(Round mode, bool negative) {
  switch (mode) {
    case Round::kTrunc:
    case Round::kOdd:
      return false;
    case Round::kFloor:
      return negative;
    case Round::kCeil:
      return !negative;
    default:
      return true;
  }
}

/*! \brief Round `value` to the format of T in any mode. Subnormal numbers are kept. */
template <class T>
inline T encode(long double value, Round mode) {
  using F = Format<T>;
  using U = typename UIntOf<sizeof(T)>::type;
  const bool negative = std::signbit(value);
  const U sign = static_cast<U>(static_cast<U>(negative) << (sizeof(T) * 8 - 1));
  if (std::isnan(value)) return bit_cast<T>(static_cast<U>(F::kNaN));
  const long double magnitude = std::fabs(value);
  if (std::isinf(value)) return bit_cast<T>(static_cast<U>(F::kInf | sign));
  int exponent = magnitude == 0 ? 1 - F::kBias : std::ilogb(magnitude);
  if (exponent < 1 - F::kBias) exponent = 1 - F::kBias;
  const long double scaled = std::ldexp(magnitude, F::kMantissa - exponent);
  const uint64_t whole = static_cast<uint64_t>(scaled);
  const double frac = static_cast<double>(scaled - static_cast<long double>(whole));
  // Adding instead of or-ing lets the hidden bit and a carry move into the exponent field.
  int64_t bits = (static_cast<int64_t>(exponent + F::kBias - 1) << F::kMantissa) + static_cast<int64_t>(whole);
  bits += rounds_up(mode, negative, whole & 1, frac);
  if (bits >= F::kInf) bits = overflows_to_infinity(mode, negative) ? F::kInf : F::kInf - 1;
  return bit_cast<T>(static_cast<U>(static_cast<U>(bits) | sign));
}

/*! \brief Value of a small float by its fields; used for the 8-bit formats only. */
template <class T>
inline float decode8(uint8_t bits) {
  using F = Format<T>;
  const int exponent = (bits & 0x7f) >> F::kMantissa;
  const int mantissa = bits & ((1 << F::kMantissa) - 1);
  float value;
  if (F::kInf == F::kNaN && (bits & 0x7f) == F::kNaN) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (F::kInf != F::kNaN && (bits & 0x7f) >= F::kInf) {
    value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - F::kBias - F::kMantissa);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + (1 << F::kMantissa)), exponent - F::kBias - F::kMantissa);
  }
  return (bits & 0x80) ? -value : value;
}

inline float to_float(Float8E4M3 v) { return decode8<Float8E4M3>(v.bits); }
inline float to_float(Float8E5M2 v) { return decode8<Float8E5M2>(v.bits); }

// ---- compute types -----------------------------------------------------------------------------------------------

/*!
 * \brief Type in which arithmetic on T is done, with exact `Load` and once-rounding `Store`.
 *
 * float holds products of two halves exactly and rounds + - / sqrt of halves harmlessly (24 >= 2 * 11 + 2 bits),
 * so storing to Half rounds the exact result once. Integers compute in their unsigned type: overflow wraps.
 */
template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<Half> {
  using type = float;
};
template <>
struct Compute<BFloat16> {
  using type = float;
};
template <>
struct Compute<Float8E4M3> {
  using type = float;
};
template <>
struct Compute<Float8E5M2> {
  using type = float;
};

template <class T>
TLA_INLINE typename Compute<T>::type load(T v) {
  if constexpr (std::is_arithmetic<T>::value) {
    return v;
  } else {
    return to_float(v);
  }
}

template <class T>
TLA_INLINE T store(typename Compute<T>::type v) {
  if constexpr (std::is_same<T, Half>::value) {
    return to_half(v);
  } else if constexpr (std::is_same<T, BFloat16>::value) {
    return to_bfloat16(v);
  } else if constexpr (std::is_arithmetic<T>::value) {
    return v;
  } else {
    return encode<T>(v, Round::kRint);
  }
}

/*! \brief An integral value as T: what lies outside the range of T saturates, NaN becomes 0. */
template <class T>
inline T saturate_to_int(long double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

/*! \brief Round to an integral value in a mode. `none` rounds to nearest even, as the vendor documents. */
inline long double round_to_integral(long double value, Round mode) {
  if (!std::isfinite(value)) return value;
  const bool negative = std::signbit(value);
  const long double magnitude = std::fabs(value);
  const long double whole = std::floor(magnitude);
  const bool odd = std::fmod(whole, 2.0L) != 0;
  const long double r = whole + (rounds_up(mode, negative, odd, static_cast<double>(magnitude - whole)) ? 1 : 0);
  return negative ? -r : r;
}

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_DTYPE_H_
