/*!
 * \file cube.h
 * \brief Matrix multiplication and the way out of L0C.
 */
#ifndef TILELANG_ASCEND_TWIN_CUBE_H_
#define TILELANG_ASCEND_TWIN_CUBE_H_

#include "twin/dma.h"

namespace tla {
namespace twin {

/*! \brief Attribute code of a conversion on the way out of L0C; reports modes the machine does not model. */
inline int64_t QuantCode(QuantMode_t mode, int32_t line) {
  switch (mode) {
    case QuantMode_t::NoQuant:
      return tla::ATTR_fixpipe_to_gm_quant_none;
    case QuantMode_t::F322F16:
      return tla::ATTR_fixpipe_to_gm_quant_f32_f16;
    case QuantMode_t::F322BF16:
      return tla::ATTR_fixpipe_to_gm_quant_f32_bf16;
  }
  tla_invalid(-1, line, "Fixpipe: this quantPre is not modelled");
  return 0;
}

inline void CheckFixpipe(const AscendC::FixpipeParamsV220& p, int32_t line) {
  if (p.ndNum != 1 || p.unitFlag != 0 || p.isChannelSplit) {
    tla_invalid(-1, line, "Fixpipe: ndNum > 1, unitFlag and channel split are not modelled");
  }
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

template <typename T, typename U, typename S>
inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& p,
                 TLA_LINE) {
  TLA_REQUIRE(OP_mmad, "Mmad", T, U, S);
  tla::twin::Issue<tla::OP_mmad>(tla_line, dst.word(), fm.word(), filter.word(), p.m, p.n, p.k, p.unitFlag,
                                 p.cmatrixSource, p.cmatrixInitVal);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, TLA_LINE) {
  TLA_REQUIRE(OP_fixpipe_to_gm, "Fixpipe", T, U);
  static_assert(config.format == CO2Layout::ROW_MAJOR, "Fixpipe to GM is modelled for CFG_ROW_MAJOR");
  tla::twin::CheckFixpipe(p, tla_line);
  tla::twin::Issue<tla::OP_fixpipe_to_gm>(tla_line, tla::twin::QuantCode(p.quantPre, tla_line), dst.word(), src.word(),
                                          p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluEn);
}

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, TLA_LINE) {
  TLA_REQUIRE(OP_fixpipe_to_l1, "Fixpipe", T, U);
  static_assert(config.format == CO2Layout::NZ, "Fixpipe to L1 is modelled for CFG_NZ");
  tla::twin::CheckFixpipe(p, tla_line);
  tla::twin::Issue<tla::OP_fixpipe_to_l1>(tla_line, tla::twin::QuantCode(p.quantPre, tla_line), dst.word(), src.word(),
                                          p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluEn);
}

/*! \brief NZ goes to L1, rows go to UB of the vector cores of the block. */
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
inline void Fixpipe(const LocalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsArch3510<config.format>& p,
                    TLA_LINE) {
  if constexpr (config.format == CO2Layout::NZ) {
    Fixpipe<T, U, config>(dst, src, static_cast<const FixpipeParamsV220&>(p), tla_line);
  } else {
    TLA_REQUIRE(OP_fixpipe_to_ub, "Fixpipe to UB", T, U);
    tla::twin::CheckFixpipe(p, tla_line);
    tla::twin::Issue<tla::OP_fixpipe_to_ub>(tla_line, tla::twin::QuantCode(p.quantPre, tla_line), dst.word(),
                                            src.word(), p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluEn,
                                            p.dualDstCtl, p.subBlockId);
  }
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_CUBE_H_
