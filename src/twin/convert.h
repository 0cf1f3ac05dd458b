/*!
 * \file convert.h
 * \brief Vector instructions that change the dtype or the kind of a value: cast, compare, select.
 */
#ifndef TILELANG_ASCEND_TWIN_CONVERT_H_
#define TILELANG_ASCEND_TWIN_CONVERT_H_

#include "twin/vector.h"

namespace tla {
namespace twin {

/*! \brief Attribute codes in the order of the enumerators. */
constexpr int64_t kRoundCodes[] = {
    tla::ATTR_cast_round_none,  tla::ATTR_cast_round_rint,  tla::ATTR_cast_round_floor, tla::ATTR_cast_round_ceil,
    tla::ATTR_cast_round_round, tla::ATTR_cast_round_trunc, tla::ATTR_cast_round_odd,
};
constexpr int64_t kCompareCodes[] = {
    tla::ATTR_compare_mode_lt, tla::ATTR_compare_mode_gt, tla::ATTR_compare_mode_eq,
    tla::ATTR_compare_mode_le, tla::ATTR_compare_mode_ge, tla::ATTR_compare_mode_ne,
};

inline int64_t Of(AscendC::RoundMode mode) { return kRoundCodes[static_cast<int>(mode)]; }
inline int64_t Of(AscendC::CMPMODE mode) { return kCompareCodes[static_cast<int>(mode)]; }

/*! \brief C220 compares int32 for equality only (doc: dtype probe of the 8.1 headers). */
template <typename T>
inline void CheckCompare(AscendC::CMPMODE mode, int32_t line) {
  if (TLA_IS_C220 && std::is_same<T, int32_t>::value && mode != AscendC::CMPMODE::EQ) {
    tla_invalid(tla::OP_compare, line, "Compare: int32 is compared for equality (CMPMODE::EQ) only on this chip");
  }
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count,
                 TLA_LINE) {
  TLA_REQUIRE(OP_cast, "Cast", T, U);
  tla::twin::Issue<tla::OP_cast>(tla_line, tla::twin::Of(roundMode), dst.word(), src.word(), count);
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                 const tla::twin::MaskWords& mask, const uint8_t repeatTime, const UnaryRepeatParams& p,
                 int32_t tla_line) {
  TLA_REQUIRE(OP_cast_mask, "Cast", T, U);
  TLA_NO_MASK_REUSE;
  tla::twin::Issue<tla::OP_cast_mask>(tla_line, tla::twin::Of(roundMode), dst.word(), src.word(), mask.hi, mask.lo,
                                      repeatTime, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride);
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask,
                 const uint8_t repeatTime, const UnaryRepeatParams& p, TLA_LINE) {
  Cast<T, U, isSetMask>(dst, src, roundMode, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}
template <typename T, typename U, bool isSetMask = true>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                 const uint64_t mask[], const uint8_t repeatTime, const UnaryRepeatParams& p, TLA_LINE) {
  Cast<T, U, isSetMask>(dst, src, roundMode, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}

template <typename T, typename U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    uint32_t count, TLA_LINE) {
  TLA_REQUIRE(OP_compare, "Compare", U, T, T);
  tla::twin::CheckCompare<T>(cmpMode, tla_line);
  tla::twin::Issue<tla::OP_compare>(tla_line, tla::twin::Of(cmpMode), dst.word(), src0.word(), src1.word(), count);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const tla::twin::MaskWords& mask, uint8_t repeatTime, const BinaryRepeatParams& p,
                    int32_t tla_line) {
  TLA_REQUIRE(OP_compare_mask, "Compare", U, T, T);
  TLA_NO_MASK_REUSE;
  tla::twin::CheckCompare<T>(cmpMode, tla_line);
  tla::twin::Issue<tla::OP_compare_mask>(tla_line, tla::twin::Of(cmpMode), dst.word(), src0.word(), src1.word(),
                                         mask.hi, mask.lo, repeatTime, p.src0BlkStride, p.src1BlkStride,
                                         p.src0RepStride, p.src1RepStride);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const uint64_t mask, uint8_t repeatTime, const BinaryRepeatParams& p, TLA_LINE) {
  Compare<T, U, isSetMask>(dst, src0, src1, cmpMode, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}
template <typename T, typename U, bool isSetMask = true>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    const uint64_t mask[], uint8_t repeatTime, const BinaryRepeatParams& p, TLA_LINE) {
  Compare<T, U, isSetMask>(dst, src0, src1, cmpMode, tla::twin::MaskWords(mask), repeatTime, p, tla_line);
}

template <typename T, typename U>
inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                          uint32_t count, TLA_LINE) {
  TLA_REQUIRE(OP_compare_scalar, "CompareScalar", U, T);
  tla::twin::CheckCompare<T>(cmpMode, tla_line);
  tla::twin::Issue<tla::OP_compare_scalar>(tla_line, tla::twin::Of(cmpMode), dst.word(), src0.word(),
                                           tla::twin::ScalarBits<T>(src1Scalar), count);
}
/*! \brief Name of `CompareScalar` from CANN 9 on. */
template <typename T, typename U>
inline void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,
                     uint32_t count, TLA_LINE) {
  CompareScalar(dst, src0, src1Scalar, cmpMode, count, tla_line);
}

template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE selMode, uint32_t count, TLA_LINE) {
  TLA_REQUIRE(OP_select, "Select", T, U, T, T);
  if (selMode != SELMODE::VSEL_TENSOR_TENSOR_MODE)
    tla_invalid(tla::OP_select, tla_line, "Select of two tensors needs VSEL_TENSOR_TENSOR_MODE");
  tla::twin::Issue<tla::OP_select>(tla_line, tla::ATTR_select_mode_tensor_tensor, dst.word(), selMask.word(),
                                   src0.word(), src1.word(), count);
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                   SELMODE selMode, uint32_t count, TLA_LINE) {
  TLA_REQUIRE(OP_select_scalar, "Select", T, U, T);
  if (selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE)
    tla_invalid(tla::OP_select_scalar, tla_line, "Select with a scalar needs VSEL_TENSOR_SCALAR_MODE");
  tla::twin::Issue<tla::OP_select_scalar>(tla_line, tla::ATTR_select_scalar_mode_tensor_scalar, dst.word(),
                                          selMask.word(), src0.word(), tla::twin::ScalarBits<T>(src1), count);
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_CONVERT_H_
