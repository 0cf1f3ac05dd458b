/*!
 * \file ops.h
 * \brief Scalar functors several families share. They work on the compute type of a dtype (see dtype.h).
 */
#ifndef TILELANG_ASCEND_ISA_OPS_H_
#define TILELANG_ASCEND_ISA_OPS_H_

#include "dtype.h"

namespace tla {
namespace isa {

/*! \brief Integers wrap: compute in an unsigned type of at least 32 bits (int16 * int16 must not overflow int). */
template <class C>
using Wide = typename std::conditional<std::is_integral<C>::value,
                                       typename std::conditional<sizeof(C) == 8, uint64_t, uint32_t>::type, C>::type;

template <class C>
TLA_INLINE Wide<C> widen(C v) {
  return static_cast<Wide<C>>(v);
}

struct Add {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    return static_cast<C>(widen(a) + widen(b));
  }
};
struct Sub {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    return static_cast<C>(widen(a) - widen(b));
  }
};
struct Mul {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    return static_cast<C>(widen(a) * widen(b));
  }
};
/*! \brief Integers are truncated towards zero, wrap, and give any quotient by zero. */
struct Div {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    if constexpr (std::is_integral<C>::value) {
      if (b == 0) return static_cast<C>(-1);
      if (std::is_signed<C>::value && b == static_cast<C>(-1)) return static_cast<C>(Wide<C>(0) - widen(a));
    }
    return static_cast<C>(a / b);
  }
};

/*! \brief A defined 0 in either operand defines the bit. */
struct And {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    return static_cast<C>(a & b);
  }
  static uint8_t undefined(uint8_t u0, uint8_t u1, uint8_t v0, uint8_t v1) {
    return static_cast<uint8_t>((u0 | u1) & (u0 | v0) & (u1 | v1));
  }
};

/*! \brief A defined 1 in either operand defines the bit. */
struct Or {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    return static_cast<C>(a | b);
  }
  static uint8_t undefined(uint8_t u0, uint8_t u1, uint8_t v0, uint8_t v1) {
    return static_cast<uint8_t>((u0 | u1) & (u0 | ~v0) & (u1 | ~v1));
  }
};

/*! \brief NaN wins; of two zeros the positive one. Equal floats have equal bits except zeros, so & decides. */
struct Max {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    if constexpr (std::is_integral<C>::value) {
      return a > b ? a : b;
    } else {
      const C equal = bit_cast<C>(bit_cast<uint32_t>(a) & bit_cast<uint32_t>(b));
      C r = a > b ? a : b;
      r = a == b ? equal : r;
      return a != a ? a : r;
    }
  }
};

/*! \brief NaN wins; of two zeros the negative one. */
struct Min {
  template <class C>
  static TLA_INLINE C apply(C a, C b) {
    if constexpr (std::is_integral<C>::value) {
      return a < b ? a : b;
    } else {
      const C equal = bit_cast<C>(bit_cast<uint32_t>(a) | bit_cast<uint32_t>(b));
      C r = a < b ? a : b;
      r = a == b ? equal : r;
      return a != a ? a : r;
    }
  }
};

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_OPS_H_
