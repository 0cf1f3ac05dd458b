/*!
 * \file params.h
 * \brief Parameter structures. Units and field order as in the public API (docs/ir.md section 3 states the units).
 */
#ifndef TILELANG_ASCEND_TWIN_PARAMS_H_
#define TILELANG_ASCEND_TWIN_PARAMS_H_

#include "twin/types.h"

namespace AscendC {

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dst_blk, uint8_t src0_blk, uint8_t src1_blk, uint8_t dst_rep, uint8_t src0_rep,
                     uint8_t src1_rep)
      : dstBlkStride(dst_blk),
        src0BlkStride(src0_blk),
        src1BlkStride(src1_blk),
        dstRepStride(dst_rep),
        src0RepStride(src0_rep),
        src1RepStride(src1_rep) {}
  uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
  uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
};

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dst_blk, uint16_t src_blk, uint8_t dst_rep, uint8_t src_rep)
      : dstBlkStride(dst_blk), srcBlkStride(src_blk), dstRepStride(dst_rep), srcRepStride(src_rep) {}
  uint16_t dstBlkStride = 1, srcBlkStride = 1;
  uint8_t dstRepStride = 8, srcRepStride = 8;
};

struct CopyRepeatParams {
  CopyRepeatParams() = default;
  CopyRepeatParams(uint16_t dst_stride, uint16_t src_stride, uint16_t dst_repeat, uint16_t src_repeat)
      : dstStride(dst_stride), srcStride(src_stride), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat) {}
  uint16_t dstStride = 0, srcStride = 0, dstRepeatSize = 0, srcRepeatSize = 0;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t dst_blk, uint16_t dst_rep) : dstBlkStride(dst_blk), dstRepStride(dst_rep) {}
  uint16_t dstBlkStride = 1, dstRepStride = 8;
};

/*! \brief Bursts in units of 32 bytes. */
struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src_gap, uint16_t dst_gap)
      : blockCount(count), blockLen(len), srcStride(src_gap), dstStride(dst_gap) {}
  uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
};

/*! \brief Bursts in bytes; the stride of the UB side in units of 32 bytes. */
struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src_stride, uint32_t dst_stride, uint32_t reserved)
      : blockCount(count), blockLen(len), srcStride(src_stride), dstStride(dst_stride), rsv(reserved) {}
  uint16_t blockCount = 1;
  uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool is_pad, uint8_t left, uint8_t right, T value)
      : isPad(is_pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  T paddingValue = T(0);
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(uint16_t nd_num, uint16_t n, uint16_t d, uint16_t src_nd_matrix_stride, uint16_t src_d,
              uint16_t dst_c0_stride, uint16_t dst_n_stride, uint16_t dst_matrix_stride)
      : ndNum(nd_num),
        nValue(n),
        dValue(d),
        srcNdMatrixStride(src_nd_matrix_stride),
        srcDValue(src_d),
        dstNzC0Stride(dst_c0_stride),
        dstNzNStride(dst_n_stride),
        dstNzMatrixStride(dst_matrix_stride) {}
  uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0,
           dstNzMatrixStride = 0;
};

template <typename T>
struct InitConstValueParams {
  InitConstValueParams() = default;
  InitConstValueParams(uint16_t repeat, uint16_t block_num, uint16_t gap, T value)
      : repeatTimes(repeat), blockNum(block_num), dstGap(gap), initValue(value) {}
  uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
  T initValue = T(0);
};

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeat, uint16_t src_stride, uint8_t stream, uint16_t dst_gap,
                   bool transpose, uint8_t addr_mode)
      : startIndex(start),
        repeatTimes(repeat),
        srcStride(src_stride),
        sid(stream),
        dstGap(dst_gap),
        ifTranspose(transpose),
        addrMode(addr_mode) {}
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 1;
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;
};

struct LoadData2DParamsV2 {
  LoadData2DParamsV2() = default;
  LoadData2DParamsV2(uint32_t m_start, uint32_t k_start, uint16_t m_step, uint16_t k_step, int32_t src_stride,
                     uint16_t dst_stride, bool transpose, uint8_t stream)
      : mStartPosition(m_start),
        kStartPosition(k_start),
        mStep(m_step),
        kStep(k_step),
        srcStride(src_stride),
        dstStride(dst_stride),
        ifTranspose(transpose),
        sid(stream) {}
  uint32_t mStartPosition = 0, kStartPosition = 0;
  uint16_t mStep = 0, kStep = 0;
  int32_t srcStride = 0;
  uint16_t dstStride = 0;
  bool ifTranspose = false;
  uint8_t sid = 0;
};

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(uint16_t start, uint8_t repeat, uint16_t src_stride, uint16_t dst_gap,
                            uint16_t dst_frac_gap)
      : startIndex(start), repeatTimes(repeat), srcStride(src_stride), dstGap(dst_gap), dstFracGap(dst_frac_gap) {}
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 1;
  uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
};

struct MmadParams {
  MmadParams() = default;
  MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, uint8_t unit_flag, bool source, bool init)
      : m(m_), n(n_), k(k_), unitFlag(unit_flag), cmatrixSource(source), cmatrixInitVal(init) {}
  uint16_t m = 0, n = 0, k = 0;
  uint8_t unitFlag = 0;
  bool cmatrixSource = false, cmatrixInitVal = true;
};

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  uint16_t nSize = 0, mSize = 0, srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
};

/*! \brief The same fields on 3510, and which vector core gets what of a result that goes to UB. */
template <CO2Layout format = CO2Layout::ROW_MAJOR>
struct FixpipeParamsArch3510 : FixpipeParamsV220 {
  uint8_t dualDstCtl = 0;  // 1: half of the rows to each, 2: half of the columns
  bool subBlockId = false;
};

struct TransDataTo5HDParams {
  TransDataTo5HDParams() = default;
  TransDataTo5HDParams(bool dst_high, bool src_high, uint8_t repeat, uint16_t dst_rep, uint16_t src_rep)
      : dstHighHalf(dst_high),
        srcHighHalf(src_high),
        repeatTimes(repeat),
        dstRepStride(dst_rep),
        srcRepStride(src_rep) {}
  bool dstHighHalf = false, srcHighHalf = false;
  uint8_t repeatTimes = 1;
  uint16_t dstRepStride = 0, srcRepStride = 0;
};

struct GatherMaskParams {
  GatherMaskParams() = default;
  GatherMaskParams(uint8_t blk_stride, uint16_t repeat, uint16_t rep_stride, uint8_t src1_rep_stride)
      : src0BlockStride(blk_stride),
        repeatTimes(repeat),
        src0RepeatStride(rep_stride),
        src1RepeatStride(src1_rep_stride) {}
  uint8_t src0BlockStride = 1;
  uint16_t repeatTimes = 1, src0RepeatStride = 0;
  uint8_t src1RepeatStride = 0;
};

struct MrgSort4Info {
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid, uint16_t repeat)
      : ifExhaustedSuspension(suspend), validBit(valid), repeatTimes(repeat) {
    for (int i = 0; i < 4; ++i) elementLengths[i] = lengths[i];
  }
  uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0, repeatTimes = 1;
};

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_PARAMS_H_
