/*!
 * \file vector_math.cc
 * \brief exp ln abs sqrt rsqrt reciprocal relu not.
 *
 * exp, ln, rsqrt: double precision rounded once (see math.h for the bound). sqrt and reciprocal: correctly rounded.
 * Special values follow the vendor's table: rsqrt(-0) = -inf, ln(+-0) = -inf, relu(-0) = +0, relu(NaN) = NaN.
 */
#include "elementwise.h"
#include "math.h"

namespace tla {
namespace isa {
namespace {

struct Exp {
  static TLA_INLINE double apply(double x) { return exp64(x); }
};
struct Ln {
  static TLA_INLINE double apply(double x) { return ln64(x); }
};
struct Rsqrt {
  static TLA_INLINE double apply(double x) { return 1.0 / std::sqrt(x); }
};

/*! \brief Source and destination are the same lanes or disjoint, and a stage is read before it is written. */
template <class T, class Fn>
struct DoubleLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    map_in_double<Fn>(reinterpret_cast<T*>(d), reinterpret_cast<const T*>(s0), n);
  }
};

struct Sqrt {
  template <class T>
  static TLA_INLINE T apply(T v) {
    return store<T>(std::sqrt(load(v)));
  }
};

struct Reciprocal {
  template <class T>
  static TLA_INLINE T apply(T v) {
    return store<T>(1.0f / load(v));
  }
};

struct Abs {
  template <class T>
  static TLA_INLINE T apply(T v) {
    if constexpr (std::is_integral<T>::value) {
      using U = typename std::make_unsigned<T>::type;
      return v < 0 ? static_cast<T>(U(0) - static_cast<U>(v)) : v;
    } else {
      using U = typename UIntOf<sizeof(T)>::type;
      return bit_cast<T>(static_cast<U>(bit_cast<U>(v) & static_cast<U>(~(U(1) << (sizeof(T) * 8 - 1)))));
    }
  }
};

struct Relu {
  template <class T>
  static TLA_INLINE T apply(T v) {
    if constexpr (std::is_integral<T>::value) {
      return v > 0 ? v : T(0);
    } else {
      const auto x = load(v);
      const T positive = x > 0 ? v : store<T>(0.0f);
      return x != x ? v : positive;
    }
  }
};

struct Not {
  template <class T>
  static TLA_INLINE T apply(T v) {
    return static_cast<T>(~v);
  }
  static uint8_t undefined(uint8_t u, uint8_t, uint8_t, uint8_t) { return u; }
};

using Floats = Types<float, Half, BFloat16>;
using Signed = Types<float, Half, BFloat16, int32_t, int16_t, int8_t, int64_t>;
using Integers = Types<int16_t, uint16_t, int32_t, uint32_t, int8_t, uint8_t, int64_t, uint64_t>;

#define TLA_UNARY(name, Loop, Functor, List)                       \
  {OP_##name, lane_impl<Loop, Functor, List, kUnaryCount>()}, {    \
    OP_##name##_mask, lane_impl<Loop, Functor, List, kUnaryMask>() \
  }

constexpr ImplRow kRows[] = {
    TLA_UNARY(exp, DoubleLoop, Exp, Floats),
    TLA_UNARY(ln, DoubleLoop, Ln, Floats),
    TLA_UNARY(abs, UnaryLoop, Abs, Signed),
    TLA_UNARY(sqrt, UnaryLoop, Sqrt, Floats),
    TLA_UNARY(rsqrt, DoubleLoop, Rsqrt, Floats),
    TLA_UNARY(reciprocal, UnaryLoop, Reciprocal, Floats),
    TLA_UNARY(relu, UnaryLoop, Relu, Signed),
    {OP_not, bits_impl<UnaryLoop, Not, Integers, kUnaryCount>()},
    {OP_not_mask, bits_impl<UnaryLoop, Not, Integers, kUnaryMask>()},
};

}  // namespace

ImplRows vector_math_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
