/*!
 * \file types.h
 * \brief Qualifiers, scalar types and enumerations of Ascend C, as far as the host twin knows them.
 */
#ifndef TILELANG_ASCEND_TWIN_TYPES_H_
#define TILELANG_ASCEND_TWIN_TYPES_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "isa/dtype.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __inout_pipe__(pipe)
#define __vector__
#define __cube__
#define __mix__(cube, vector)
#define GM_ADDR uint8_t*

// What CANN defines in builds for the CPU: launches go through ICPU_RUN_KF instead of <<<>>>.
#define ASCENDC_CPU_DEBUG 1
enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE };

/*! \brief IEEE binary16. Arithmetic happens in float, as mixed expressions do in Ascend C. */
struct half {
  tla::isa::Half value;
  half() = default;
  template <typename A, typename = std::enable_if_t<std::is_arithmetic<A>::value>>
  half(A v) : value(tla::isa::to_half(static_cast<float>(v))) {}  // NOLINT: implicit, as in Ascend C
  operator float() const { return tla::isa::to_float(value); }
};

/*! \brief bfloat16, the upper half of a float. */
struct bfloat16_t {
  tla::isa::BFloat16 value;
  bfloat16_t() = default;
  template <typename A, typename = std::enable_if_t<std::is_arithmetic<A>::value>>
  bfloat16_t(A v) : value(tla::isa::to_bfloat16(static_cast<float>(v))) {}  // NOLINT: implicit, as in Ascend C
  operator float() const { return tla::isa::to_float(value); }
};

// 8-bit floating point; overflow rounds to infinity or, without one, to NaN.
#define TLA_FP8(name, Storage)                                                                                        \
  struct name {                                                                                                       \
    tla::isa::Storage value;                                                                                          \
    name() = default;                                                                                                 \
    template <typename A, typename = std::enable_if_t<std::is_arithmetic<A>::value>>                                  \
    explicit name(A v) : value(tla::isa::encode<tla::isa::Storage>(static_cast<float>(v), tla::isa::Round::kRint)) {} \
    operator float() const { return tla::isa::to_float(value); }                                                      \
  };
TLA_FP8(fp8_e4m3fn_t, Float8E4M3)
TLA_FP8(fp8_e5m2_t, Float8E5M2)
#undef TLA_FP8

enum pipe_t : uint8_t {
  PIPE_S = 0,
  PIPE_V = 1,
  PIPE_M = 2,
  PIPE_MTE1 = 3,
  PIPE_MTE2 = 4,
  PIPE_MTE3 = 5,
  PIPE_ALL = 6,
  PIPE_FIX = 10,
};

enum event_t : int8_t {
  EVENT_ID0 = 0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7,
};
using TEventID = int8_t;

enum QuantMode_t : uint8_t { NoQuant = 0, F322F16 = 1, F322BF16 = 16 };

enum KernelType : uint8_t {
  KERNEL_TYPE_AIV_ONLY,
  KERNEL_TYPE_AIC_ONLY,
  KERNEL_TYPE_MIX_AIV_1_0,
  KERNEL_TYPE_MIX_AIC_1_0,
  KERNEL_TYPE_MIX_AIC_1_1,
  KERNEL_TYPE_MIX_AIC_1_2,
};

// Pairs of pipes a flag can order.
// clang-format off
#define TLA_HARD_EVENTS(X)                                                                                        \
  X(MTE2_MTE1) X(MTE1_MTE2) X(MTE1_M) X(M_MTE1) X(MTE2_V) X(V_MTE2) X(MTE3_V) X(V_MTE3) X(M_V) X(V_M) X(V_V)      \
  X(MTE3_MTE1) X(MTE1_MTE3) X(MTE1_V) X(MTE2_M) X(M_MTE2) X(V_MTE1) X(M_FIX) X(FIX_M) X(MTE3_MTE2) X(MTE2_MTE3)   \
  X(S_V) X(V_S) X(S_MTE2) X(MTE2_S) X(S_MTE3) X(MTE3_S) X(MTE2_FIX) X(FIX_MTE2) X(FIX_S) X(M_S) X(FIX_MTE3)       \
  X(MTE1_FIX) X(FIX_MTE1) X(FIX_FIX)
// clang-format on

namespace AscendC {

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM,
  SPM,
  TSCM,
  C2PIPE2GM,
};
using QuePosition = TPosition;

#define TLA_ENUMERATOR(name) name,
enum class HardEvent : uint8_t { TLA_HARD_EVENTS(TLA_ENUMERATOR) MAX };
#undef TLA_ENUMERATOR

enum class RoundMode : uint8_t { CAST_NONE = 0, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class CacheMode : uint8_t {
  CACHE_MODE_DISABLE = 0,
  CACHE_MODE_NORMAL = 1,
  CACHE_MODE_LAST = 2,
  CACHE_MODE_PERSISTENT = 4
};
enum class CacheRwMode : uint8_t { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

inline float ToFloat(const bfloat16_t& v) { return static_cast<float>(v); }
inline bfloat16_t ToBfloat16(const float& v) { return bfloat16_t(v); }

}  // namespace AscendC

namespace tla {
namespace twin {

/*! \brief Memory space codes of operand words (docs/ir.md section 4). */
enum class Space : uint8_t { kGM = 0, kL1 = 1, kL0A = 2, kL0B = 3, kL0C = 4, kUB = 5, kBT = 6, kFB = 7 };

/*! \brief Memory of a position of the queue model (doc: general constraints of the SIMD API). */
constexpr Space SpaceOf(AscendC::TPosition p) {
  switch (p) {
    case AscendC::TPosition::A1:
    case AscendC::TPosition::B1:
    case AscendC::TPosition::C1:
    case AscendC::TPosition::TSCM:
      return Space::kL1;
    case AscendC::TPosition::A2:
      return Space::kL0A;
    case AscendC::TPosition::B2:
      return Space::kL0B;
    case AscendC::TPosition::CO1:
      return Space::kL0C;
    case AscendC::TPosition::C2:
      return Space::kBT;
    case AscendC::TPosition::C2PIPE2GM:
      return Space::kFB;
    case AscendC::TPosition::GM:
    case AscendC::TPosition::CO2:
      return Space::kGM;
    default:
      return Space::kUB;
  }
}

/*! \brief dtype code of an element type (docs/ir.md section 4); 0 = not a tensor element. */
template <typename T>
struct Code {
  static constexpr uint8_t value = 0;
};
#define TLA_DTYPE(type, code)              \
  template <>                              \
  struct Code<type> {                      \
    static constexpr uint8_t value = code; \
  };
TLA_DTYPE(int8_t, 1)
TLA_DTYPE(uint8_t, 2)
TLA_DTYPE(int16_t, 3)
TLA_DTYPE(uint16_t, 4)
TLA_DTYPE(int32_t, 5)
TLA_DTYPE(uint32_t, 6)
TLA_DTYPE(int64_t, 7)
TLA_DTYPE(uint64_t, 8)
TLA_DTYPE(half, 9)
TLA_DTYPE(bfloat16_t, 10)
TLA_DTYPE(float, 11)
TLA_DTYPE(double, 12)
TLA_DTYPE(fp8_e4m3fn_t, 14)
TLA_DTYPE(fp8_e5m2_t, 15)
#undef TLA_DTYPE

/*! \brief Bits of a scalar argument: integers as they are, floating point as the bits of a float64. */
template <typename T>
inline int64_t ScalarBits(T value) {
  if constexpr (std::is_integral<T>::value || std::is_enum<T>::value) {
    return static_cast<int64_t>(value);
  } else {
    return tla::isa::bit_cast<int64_t>(static_cast<double>(static_cast<float>(value)));
  }
}

/*! \brief Inverse of `ScalarBits`. */
template <typename T>
inline T ScalarValue(int64_t bits) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(bits);
  } else {
    return T(static_cast<float>(tla::isa::bit_cast<double>(bits)));
  }
}

}  // namespace twin
}  // namespace tla
#endif  // TILELANG_ASCEND_TWIN_TYPES_H_
