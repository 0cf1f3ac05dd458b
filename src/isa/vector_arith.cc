/*!
 * \file vector_arith.cc
 * \brief add sub mul div max min and or, their forms with a scalar, shifts, and the multiply-add family.
 *
 * Floating point: the exact result rounded once. Multiply-add rounds the product before the sum, as the vendor's
 * edge-value table shows (MAX * MAX + -inf = NaN). Integers wrap (INF/NAN mode of the same table).
 */
#include "elementwise.h"
#include "ops.h"

namespace tla {
namespace isa {
namespace {

/*! \brief The sign bit decides, so that +0 stays and -0 is multiplied. */
struct LeakyRelu {
  static TLA_INLINE float apply(float a, float slope) {
    const float scaled = a * slope;
    return (bit_cast<uint32_t>(a) >> 31) != 0 ? scaled : a;
  }
};

template <class C>
TLA_INLINE bool shifts_out(C amount) {
  return static_cast<uint64_t>(amount) >= sizeof(C) * 8;
}

struct ShiftLeft {
  template <class C>
  static TLA_INLINE C apply(C a, C amount) {
    return shifts_out(amount) ? C(0) : static_cast<C>(widen(a) << (amount & (sizeof(C) * 8 - 1)));
  }
};

/*! \brief Arithmetic for signed, logical for unsigned types. */
struct ShiftRight {
  template <class C>
  static TLA_INLINE C apply(C a, C amount) {
    const C all = a < 0 ? C(-1) : C(0);
    return shifts_out(amount) ? all : static_cast<C>(a >> (amount & (sizeof(C) * 8 - 1)));
  }
};

// ---- multiply-add: the destination is an input, source and destination dtypes may differ (half into float) ---------

struct Axpy {};         // d = s0 * scalar + d
struct MulAddDst {};    // d = s0 * s1 + d
struct FusedMulAdd {};  // d = s0 * d + s1

template <class T, class Kind>
struct MultiplyAddLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t* s1, int64_t scalar, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const T* a = reinterpret_cast<const T*>(s0);
    const T* b = reinterpret_cast<const T*>(s1);
    const auto factor = decode_scalar<T>(scalar);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same<Kind, Axpy>::value) {
        out[i] = sum(product(load(a[i]), factor), load(out[i]));
      } else if constexpr (std::is_same<Kind, MulAddDst>::value) {
        out[i] = sum(product(load(a[i]), load(b[i])), load(out[i]));
      } else {
        out[i] = sum(product(load(a[i]), load(out[i])), load(b[i]));
      }
    }
  }

 private:
  using C = typename Compute<T>::type;
  static TLA_INLINE C product(C x, C y) { return load(store<T>(x * y)); }
  static TLA_INLINE T sum(C x, C y) { return store<T>(x + y); }
};

using Arithmetic =
    Types<float, Half, int32_t, int16_t, BFloat16, uint32_t, uint16_t, int8_t, uint8_t, int64_t, uint64_t>;
using Floats = Types<float, Half, BFloat16>;
using Quotients = Types<float, Half, BFloat16, int64_t>;
using Integers = Types<int16_t, uint16_t, int32_t, uint32_t, int8_t, uint8_t, int64_t, uint64_t>;

#define TLA_BINARY(name, Functor, List)                                   \
  {OP_##name, lane_impl<BinaryLoop, Functor, List, kBinaryCount>()}, {    \
    OP_##name##_mask, lane_impl<BinaryLoop, Functor, List, kBinaryMask>() \
  }
#define TLA_BITWISE(name, Functor, List)                                  \
  {OP_##name, bits_impl<BinaryLoop, Functor, List, kBinaryCount>()}, {    \
    OP_##name##_mask, bits_impl<BinaryLoop, Functor, List, kBinaryMask>() \
  }
#define TLA_SCALAR(name, Functor, List)                                   \
  {OP_##name, lane_impl<ScalarLoop, Functor, List, kScalarCount>()}, {    \
    OP_##name##_mask, lane_impl<ScalarLoop, Functor, List, kScalarMask>() \
  }
#define TLA_UPDATE(name, Kind, Form)                                         \
  {OP_##name, lane_impl<MultiplyAddLoop, Kind, Floats, Form##Count>()}, {    \
    OP_##name##_mask, lane_impl<MultiplyAddLoop, Kind, Floats, Form##Mask>() \
  }

constexpr ImplRow kRows[] = {
    TLA_BINARY(add, Add, Arithmetic),
    TLA_BINARY(sub, Sub, Arithmetic),
    TLA_BINARY(mul, Mul, Arithmetic),
    TLA_BINARY(div, Div, Quotients),
    TLA_BINARY(max, Max, Arithmetic),
    TLA_BINARY(min, Min, Arithmetic),
    TLA_BITWISE(and, And, Integers),
    TLA_BITWISE(or, Or, Integers),
    TLA_SCALAR(adds, Add, Arithmetic),
    TLA_SCALAR(muls, Mul, Arithmetic),
    TLA_SCALAR(maxs, Max, Arithmetic),
    TLA_SCALAR(mins, Min, Arithmetic),
    TLA_SCALAR(leaky_relu, LeakyRelu, Floats),
    TLA_SCALAR(shift_left, ShiftLeft, Integers),
    TLA_SCALAR(shift_right, ShiftRight, Integers),
    TLA_UPDATE(axpy, Axpy, kScalarUpdate),
    TLA_UPDATE(mul_add_dst, MulAddDst, kBinaryUpdate),
    TLA_UPDATE(fused_mul_add, FusedMulAdd, kBinaryUpdate),
};

}  // namespace

ImplRows vector_arith_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
