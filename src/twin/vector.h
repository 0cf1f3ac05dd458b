/*!
 * \file vector.h
 * \brief Element-wise vector instructions: count form and high-dimension form (lanes or bit mask).
 */
#ifndef TILELANG_ASCEND_TWIN_VECTOR_H_
#define TILELANG_ASCEND_TWIN_VECTOR_H_

#include "twin/memory.h"
#include "twin/params.h"

namespace AscendC {

// Element types of a function: most name one, MulAddDst and Axpy one for the destination and one for the sources.
#define TLA_ONE_TYPE typename T
#define TLA_TWO_TYPES typename T, typename S
#define TLA_NO_MASK_REUSE static_assert(isSetMask, "isSetMask = false is not modelled")

// d = s0 op s1; S is the type of the sources.
#define TLA_BINARY(Api, name, Types, S)                                                                               \
  template <Types>                                                                                                    \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,                  \
                  const int32_t& count, TLA_LINE) {                                                                   \
    TLA_REQUIRE(OP_##name, #Api, T, S, S);                                                                            \
    tla::twin::Issue<tla::OP_##name>(tla_line, dst.word(), src0.word(), src1.word(), count);                          \
  }                                                                                                                   \
  template <Types>                                                                                                    \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1,                  \
                  const tla::twin::MaskWords& mask, uint8_t repeatTime, const BinaryRepeatParams& p,                  \
                  int32_t tla_line) {                                                                                 \
    TLA_REQUIRE(OP_##name##_mask, #Api, T, S, S);                                                                     \
    tla::twin::Issue<tla::OP_##name##_mask>(tla_line, dst.word(), src0.word(), src1.word(), mask.hi, mask.lo,         \
                                            repeatTime, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,             \
                                            p.dstRepStride, p.src0RepStride, p.src1RepStride);                        \
  }                                                                                                                   \
  template <Types, bool isSetMask = true>                                                                             \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, uint64_t mask,   \
                  const uint8_t repeatTime, const BinaryRepeatParams& p, TLA_LINE) {                                  \
    TLA_NO_MASK_REUSE;                                                                                                \
    Api(dst, src0, src1, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                        \
  }                                                                                                                   \
  template <Types, bool isSetMask = true>                                                                             \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src0, const LocalTensor<S>& src1, uint64_t mask[], \
                  const uint8_t repeatTime, const BinaryRepeatParams& p, TLA_LINE) {                                  \
    TLA_NO_MASK_REUSE;                                                                                                \
    Api(dst, src0, src1, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                        \
  }

TLA_BINARY(Add, add, TLA_ONE_TYPE, T)
TLA_BINARY(Sub, sub, TLA_ONE_TYPE, T)
TLA_BINARY(Mul, mul, TLA_ONE_TYPE, T)
TLA_BINARY(Div, div, TLA_ONE_TYPE, T)
TLA_BINARY(Max, max, TLA_ONE_TYPE, T)
TLA_BINARY(Min, min, TLA_ONE_TYPE, T)
TLA_BINARY(And, and, TLA_ONE_TYPE, T)
TLA_BINARY(Or, or, TLA_ONE_TYPE, T)
TLA_BINARY(MulAddDst, mul_add_dst, TLA_TWO_TYPES, S)
TLA_BINARY(FusedMulAdd, fused_mul_add, TLA_ONE_TYPE, T)
#undef TLA_BINARY

// d = op s
#define TLA_UNARY(Api, name)                                                                                       \
  template <typename T>                                                                                            \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count, TLA_LINE) {          \
    TLA_REQUIRE(OP_##name, #Api, T, T);                                                                            \
    tla::twin::Issue<tla::OP_##name>(tla_line, dst.word(), src.word(), count);                                     \
  }                                                                                                                \
  template <typename T>                                                                                            \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, const tla::twin::MaskWords& mask,          \
                  uint8_t repeatTime, const UnaryRepeatParams& p, int32_t tla_line) {                              \
    TLA_REQUIRE(OP_##name##_mask, #Api, T, T);                                                                     \
    tla::twin::Issue<tla::OP_##name##_mask>(tla_line, dst.word(), src.word(), mask.hi, mask.lo, repeatTime,        \
                                            p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride);       \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const uint8_t repeatTime,   \
                  const UnaryRepeatParams& p, TLA_LINE) {                                                          \
    TLA_NO_MASK_REUSE;                                                                                             \
    Api(dst, src, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                            \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const uint8_t repeatTime, \
                  const UnaryRepeatParams& p, TLA_LINE) {                                                          \
    TLA_NO_MASK_REUSE;                                                                                             \
    Api(dst, src, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                            \
  }

TLA_UNARY(Exp, exp)
TLA_UNARY(Ln, ln)
TLA_UNARY(Abs, abs)
TLA_UNARY(Sqrt, sqrt)
TLA_UNARY(Rsqrt, rsqrt)
TLA_UNARY(Reciprocal, reciprocal)
TLA_UNARY(Relu, relu)
TLA_UNARY(Not, not)
#undef TLA_UNARY

// d = s op scalar; S is the type of the source and the scalar.
#define TLA_SCALAR(Api, name, Types, S)                                                                               \
  template <Types>                                                                                                    \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src, const S& scalarValue, const int32_t& count,   \
                  TLA_LINE) {                                                                                         \
    TLA_REQUIRE(OP_##name, #Api, T, S);                                                                               \
    tla::twin::Issue<tla::OP_##name>(tla_line, dst.word(), src.word(), tla::twin::ScalarBits<S>(scalarValue), count); \
  }                                                                                                                   \
  template <Types>                                                                                                    \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src, const S& scalarValue,                         \
                  const tla::twin::MaskWords& mask, uint8_t repeatTime, const UnaryRepeatParams& p,                   \
                  int32_t tla_line) {                                                                                 \
    TLA_REQUIRE(OP_##name##_mask, #Api, T, S);                                                                        \
    tla::twin::Issue<tla::OP_##name##_mask>(tla_line, dst.word(), src.word(), tla::twin::ScalarBits<S>(scalarValue),  \
                                            mask.hi, mask.lo, repeatTime, p.dstBlkStride, p.srcBlkStride,             \
                                            p.dstRepStride, p.srcRepStride);                                          \
  }                                                                                                                   \
  template <Types, bool isSetMask = true>                                                                             \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src, const S& scalarValue, uint64_t mask,          \
                  const uint8_t repeatTime, const UnaryRepeatParams& p, TLA_LINE) {                                   \
    TLA_NO_MASK_REUSE;                                                                                                \
    Api(dst, src, scalarValue, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                  \
  }                                                                                                                   \
  template <Types, bool isSetMask = true>                                                                             \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<S>& src, const S& scalarValue, uint64_t mask[],        \
                  const uint8_t repeatTime, const UnaryRepeatParams& p, TLA_LINE) {                                   \
    TLA_NO_MASK_REUSE;                                                                                                \
    Api(dst, src, scalarValue, tla::twin::MaskWords(mask), repeatTime, p, tla_line);                                  \
  }

TLA_SCALAR(Adds, adds, TLA_ONE_TYPE, T)
TLA_SCALAR(Muls, muls, TLA_ONE_TYPE, T)
TLA_SCALAR(Maxs, maxs, TLA_ONE_TYPE, T)
TLA_SCALAR(Mins, mins, TLA_ONE_TYPE, T)
TLA_SCALAR(LeakyRelu, leaky_relu, TLA_ONE_TYPE, T)
TLA_SCALAR(ShiftLeft, shift_left, TLA_ONE_TYPE, T)
TLA_SCALAR(ShiftRight, shift_right, TLA_ONE_TYPE, T)
TLA_SCALAR(Axpy, axpy, TLA_TWO_TYPES, S)
#undef TLA_SCALAR
#undef TLA_ONE_TYPE
#undef TLA_TWO_TYPES

// ---- duplicate, index, copy ---------------------------------------------------------------------------------------

template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count, TLA_LINE) {
  TLA_REQUIRE(OP_duplicate, "Duplicate", T);
  tla::twin::Issue<tla::OP_duplicate>(tla_line, dst.word(), tla::twin::ScalarBits<T>(scalarValue), count);
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const tla::twin::MaskWords& mask,
                      const uint8_t repeatTime, const uint16_t dstBlockStride, const uint8_t dstRepStride,
                      int32_t tla_line) {
  TLA_REQUIRE(OP_duplicate_mask, "Duplicate", T);
  TLA_NO_MASK_REUSE;
  tla::twin::Issue<tla::OP_duplicate_mask>(tla_line, dst.word(), tla::twin::ScalarBits<T>(scalarValue), mask.hi,
                                           mask.lo, repeatTime, dstBlockStride, dstRepStride);
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepStride, TLA_LINE) {
  Duplicate<T, isSetMask>(dst, scalarValue, tla::twin::MaskWords(mask), repeatTime, dstBlockStride, dstRepStride,
                          tla_line);
}
template <typename T, bool isSetMask = true>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const uint8_t repeatTime,
                      const uint16_t dstBlockStride, const uint8_t dstRepStride, TLA_LINE) {
  Duplicate<T, isSetMask>(dst, scalarValue, tla::twin::MaskWords(mask), repeatTime, dstBlockStride, dstRepStride,
                          tla_line);
}

template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const tla::twin::MaskWords& mask,
                 const uint8_t repeatTime, const CopyRepeatParams& p, int32_t tla_line) {
  TLA_REQUIRE(OP_copy_mask, "Copy", T, T);
  TLA_NO_MASK_REUSE;
  tla::twin::Issue<tla::OP_copy_mask>(tla_line, dst.word(), src.word(), mask.hi, mask.lo, repeatTime, p.dstStride,
                                      p.srcStride, p.dstRepeatSize, p.srcRepeatSize);
}
template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const uint8_t repeatTime,
                 const CopyRepeatParams& p, TLA_LINE) {
  Copy<T, isSetMask>(dst, src, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}
template <typename T, bool isSetMask = true>
inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const uint8_t repeatTime,
                 const CopyRepeatParams& p, TLA_LINE) {
  Copy<T, isSetMask>(dst, src, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_VECTOR_H_
