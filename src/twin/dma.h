/*!
 * \file dma.h
 * \brief Data movement: GM, UB, L1, L0.
 */
#ifndef TILELANG_ASCEND_TWIN_DMA_H_
#define TILELANG_ASCEND_TWIN_DMA_H_

#include "twin/memory.h"
#include "twin/params.h"

namespace tla {
namespace twin {

/*! \brief The padded copies with all fields spelled out; the forms below are special cases. */
template <typename T>
inline void GmToUb(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                   const AscendC::DataCopyExtParams& p, const AscendC::DataCopyPadExtParams<T>& pad, int32_t line) {
  TLA_REQUIRE(OP_copy_gm_to_ub, "DataCopyPad", T, T);
  Issue<tla::OP_copy_gm_to_ub>(line, dst.word(), src.word(), p.blockCount, p.blockLen, p.srcStride, p.dstStride,
                               pad.isPad, pad.leftPadding, pad.rightPadding, ScalarBits<T>(pad.paddingValue));
}

template <typename T>
inline void UbToGm(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                   const AscendC::DataCopyExtParams& p, int32_t line) {
  TLA_REQUIRE(OP_copy_ub_to_gm, "DataCopyPad", T, T);
  Issue<tla::OP_copy_ub_to_gm>(line, dst.word(), src.word(), p.blockCount, p.blockLen, p.srcStride, p.dstStride);
}

/*! \brief Number of whole 32-byte blocks in `count` elements; the API drops the rest. */
template <typename T>
inline uint32_t BlocksOf(uint32_t count, int32_t line) {
  if (count * sizeof(T) % 32 != 0)
    tla_invalid(-1, line, "DataCopy: count is not a multiple of 32 bytes, the rest would be dropped");
  return static_cast<uint32_t>(count * sizeof(T) / 32);
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

template <typename T>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                        const DataCopyPadExtParams<T>& padParams, TLA_LINE) {
  tla::twin::GmToUb(dst, src, dataCopyParams, padParams, tla_line);
}

template <typename T>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& dataCopyParams,
                        TLA_LINE) {
  tla::twin::UbToGm(dst, src, dataCopyParams, tla_line);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p, TLA_LINE) {
  const DataCopyExtParams bytes(p.blockCount, p.blockLen * 32u, p.srcStride * 32u, p.dstStride, 0);
  tla::twin::GmToUb(dst, src, bytes, DataCopyPadExtParams<T>(), tla_line);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p, TLA_LINE) {
  const DataCopyExtParams bytes(p.blockCount, p.blockLen * 32u, p.srcStride, p.dstStride * 32u, 0);
  tla::twin::UbToGm(dst, src, bytes, tla_line);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p, TLA_LINE) {
  if constexpr (tla::twin::Supports<tla::OP_copy_ub_to_l1, T, T>()) {
    if (tla::twin::SpaceOf(dst.GetPosition()) == tla::twin::Space::kL1) {
      tla::twin::Issue<tla::OP_copy_ub_to_l1>(tla_line, dst.word(), src.word(), p.blockCount, p.blockLen, p.srcStride,
                                              p.dstStride);
      return;
    }
  }
  TLA_REQUIRE(OP_copy_ub_to_ub, "DataCopy", T, T);
  tla::twin::Issue<tla::OP_copy_ub_to_ub>(tla_line, dst.word(), src.word(), p.blockCount, p.blockLen, p.srcStride,
                                          p.dstStride);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count, TLA_LINE) {
  const DataCopyExtParams bytes(1, tla::twin::BlocksOf<T>(count, tla_line) * 32, 0, 0, 0);
  tla::twin::GmToUb(dst, src, bytes, DataCopyPadExtParams<T>(), tla_line);
}

template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, TLA_LINE) {
  const DataCopyExtParams bytes(1, tla::twin::BlocksOf<T>(count, tla_line) * 32, 0, 0, 0);
  tla::twin::UbToGm(dst, src, bytes, tla_line);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count, TLA_LINE) {
  DataCopy(dst, src, DataCopyParams(1, static_cast<uint16_t>(tla::twin::BlocksOf<T>(count, tla_line)), 0, 0), tla_line);
}

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p, TLA_LINE) {
  TLA_REQUIRE(OP_copy_gm_to_l1_nd2nz, "DataCopy with Nd2NzParams", T, T);
  tla::twin::Issue<tla::OP_copy_gm_to_l1_nd2nz>(tla_line, dst.word(), src.word(), p.ndNum, p.nValue, p.dValue,
                                                p.srcNdMatrixStride, p.srcDValue, p.dstNzC0Stride, p.dstNzNStride,
                                                p.dstNzMatrixStride);
}

template <typename T>
inline void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<T>& p, TLA_LINE) {
  TLA_REQUIRE(OP_fill_l1, "InitConstValue", T);
  tla::twin::Issue<tla::OP_fill_l1>(tla_line, dst.word(), p.repeatTimes, p.blockNum, p.dstGap,
                                    tla::twin::ScalarBits<T>(p.initValue));
}
template <typename T>
inline void Fill(const LocalTensor<T>& dst, const InitConstValueParams<T>& p, TLA_LINE) {
  InitConstValue(dst, p, tla_line);
}

template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, TLA_LINE) {
  if (dst.GetPosition() == TPosition::B2) {
    TLA_REQUIRE(OP_load_l0b, "LoadData with LoadData2DParams", T, T);
    tla::twin::Issue<tla::OP_load_l0b>(tla_line, dst.word(), src.word(), p.startIndex, p.repeatTimes, p.srcStride,
                                       p.dstGap, p.ifTranspose);
  } else {
    tla::twin::Issue<tla::OP_load_l0a>(tla_line, dst.word(), src.word(), p.startIndex, p.repeatTimes, p.srcStride,
                                       p.dstGap, p.ifTranspose);
  }
}

template <typename T>
inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParamsV2& p, TLA_LINE) {
  TLA_REQUIRE(OP_load_l0a_v2, "LoadData with LoadData2DParamsV2", T, T);
  if (dst.GetPosition() == TPosition::B2) {
    tla::twin::Issue<tla::OP_load_l0b_v2>(tla_line, dst.word(), src.word(), p.mStartPosition, p.kStartPosition, p.mStep,
                                          p.kStep, p.srcStride, p.dstStride, p.ifTranspose);
  } else {
    tla::twin::Issue<tla::OP_load_l0a_v2>(tla_line, dst.word(), src.word(), p.mStartPosition, p.kStartPosition, p.mStep,
                                          p.kStep, p.srcStride, p.dstStride, p.ifTranspose);
  }
}

template <typename T>
inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                  const LoadData2dTransposeParams& p, TLA_LINE) {
  TLA_REQUIRE(OP_load_l0b_transpose, "LoadDataWithTranspose", T, T);
  if (dst.GetPosition() == TPosition::B2) {
    tla::twin::Issue<tla::OP_load_l0b_transpose>(tla_line, dst.word(), src.word(), p.startIndex, p.repeatTimes,
                                                 p.srcStride, p.dstGap, p.dstFracGap);
  } else {
    tla::twin::Issue<tla::OP_load_l0a_transpose>(tla_line, dst.word(), src.word(), p.startIndex, p.repeatTimes,
                                                 p.srcStride, p.dstGap, p.dstFracGap);
  }
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_DMA_H_
