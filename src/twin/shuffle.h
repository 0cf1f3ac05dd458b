/*!
 * \file shuffle.h
 * \brief Vector instructions in which lanes do not stay in their place: reduce, broadcast, gather, transpose, sort.
 */
#ifndef TILELANG_ASCEND_TWIN_SHUFFLE_H_
#define TILELANG_ASCEND_TWIN_SHUFFLE_H_

#include "twin/vector.h"

namespace AscendC {

// Reductions within one repeat. The mask is a number of lanes.
template <typename T, bool isSetMask = true>
inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask,
                           const int32_t repeatTimes, const int32_t dstRepStride, const int32_t srcBlkStride,
                           const int32_t srcRepStride, TLA_LINE) {
  TLA_REQUIRE(OP_whole_reduce_sum, "WholeReduceSum", T, T);
  TLA_NO_MASK_REUSE;
  tla::twin::Issue<tla::OP_whole_reduce_sum>(tla_line, dst.word(), src.word(), mask, repeatTimes, dstRepStride,
                                             srcBlkStride, srcRepStride);
}

#define TLA_WHOLE_REDUCE(Api, name)                                                                                    \
  template <typename T, bool isSetMask = true>                                                                         \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTimes, \
                  const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,                  \
                  ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, TLA_LINE) {                                      \
    TLA_REQUIRE(OP_##name, #Api, T, T);                                                                                \
    TLA_NO_MASK_REUSE;                                                                                                 \
    if (order != ReduceOrder::ORDER_ONLY_VALUE)                                                                        \
      tla_invalid(tla::OP_##name, tla_line, #Api ": only ORDER_ONLY_VALUE is modelled");                               \
    tla::twin::Issue<tla::OP_##name>(tla_line, dst.word(), src.word(), mask, repeatTimes, dstRepStride, srcBlkStride,  \
                                     srcRepStride);                                                                    \
  }
TLA_WHOLE_REDUCE(WholeReduceMax, whole_reduce_max)
TLA_WHOLE_REDUCE(WholeReduceMin, whole_reduce_min)
#undef TLA_WHOLE_REDUCE

#define TLA_BLOCK_REDUCE(Api, name)                                                                               \
  template <typename T, bool isSetMask = true>                                                                    \
  inline void Api(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat, const int32_t mask, \
                  const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride, TLA_LINE) { \
    TLA_REQUIRE(OP_##name, #Api, T, T);                                                                           \
    TLA_NO_MASK_REUSE;                                                                                            \
    tla::twin::Issue<tla::OP_##name>(tla_line, dst.word(), src.word(), repeat, mask, dstRepStride, srcBlkStride,  \
                                     srcRepStride);                                                               \
  }
TLA_BLOCK_REDUCE(BlockReduceSum, block_reduce_sum)
TLA_BLOCK_REDUCE(BlockReduceMax, block_reduce_max)
TLA_BLOCK_REDUCE(BlockReduceMin, block_reduce_min)
TLA_BLOCK_REDUCE(PairReduceSum, pair_reduce_sum)
#undef TLA_BLOCK_REDUCE

template <typename T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
                 const BrcbRepeatParams& p, TLA_LINE) {
  TLA_REQUIRE(OP_brcb, "Brcb", T, T);
  tla::twin::Issue<tla::OP_brcb>(tla_line, dst.word(), src.word(), repeatTime, p.dstBlkStride, p.dstRepStride);
}

template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseOffset, const uint32_t count, TLA_LINE) {
  TLA_REQUIRE(OP_gather, "Gather", T, T, uint32_t);
  tla::twin::Issue<tla::OP_gather>(tla_line, dst.word(), src.word(), srcOffset.word(), srcBaseOffset, count);
}

template <typename T>
inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, TLA_LINE) {
  TLA_REQUIRE(OP_transpose, "Transpose", T, T);
  tla::twin::Issue<tla::OP_transpose>(tla_line, dst.word(), src.word());
}

/*! \brief The 16 addresses of each list must be equally far apart, in whole blocks: that is what the machine models. */
template <typename T>
inline void TransDataTo5HD(uint64_t dstList[16], uint64_t srcList[16], const TransDataTo5HDParams& p, TLA_LINE) {
  TLA_REQUIRE(OP_trans_data_to_5hd, "TransDataTo5HD", T, T);
  const uint64_t dst_step = dstList[1] - dstList[0], src_step = srcList[1] - srcList[0];
  bool even = dst_step % 32 == 0 && src_step % 32 == 0;
  for (int i = 1; i < 16; ++i)
    even = even && dstList[i] - dstList[i - 1] == dst_step && srcList[i] - srcList[i - 1] == src_step;
  if (!even)
    tla_invalid(tla::OP_trans_data_to_5hd, tla_line,
                "TransDataTo5HD: rows that are not evenly spaced are not modelled");
  tla::twin::Issue<tla::OP_trans_data_to_5hd>(tla_line, tla::twin::PlaceWord<T>(tla::twin::Space::kUB, dstList[0]),
                                              tla::twin::PlaceWord<T>(tla::twin::Space::kUB, srcList[0]), dst_step / 32,
                                              src_step / 32, p.dstHighHalf, p.srcHighHalf, p.repeatTimes,
                                              p.dstRepStride, p.srcRepStride);
}

template <typename T>
inline void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
                   const int32_t repeatTime, TLA_LINE) {
  TLA_REQUIRE(OP_sort32, "Sort32", T, T, uint32_t);
  tla::twin::Issue<tla::OP_sort32>(tla_line, dst.word(), src0.word(), src1.word(), repeatTime);
}

template <typename T>
struct MrgSortSrcList {
  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& s1, const LocalTensor<T>& s2, const LocalTensor<T>& s3, const LocalTensor<T>& s4)
      : src1(s1), src2(s2), src3(s3), src4(s4) {}
  LocalTensor<T> src1, src2, src3, src4;
};

template <typename T>
inline void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& p, TLA_LINE) {
  TLA_REQUIRE(OP_mrg_sort, "MrgSort", T, T, T, T, T);
  if (p.ifExhaustedSuspension) tla_invalid(tla::OP_mrg_sort, tla_line, "MrgSort: exhausted suspension is not modelled");
  if (p.validBit != 3 && p.validBit != 7 && p.validBit != 15)
    tla_invalid(tla::OP_mrg_sort, tla_line, "MrgSort: the first two, three or four queues take part");
  const uint16_t* n = p.elementLengths;
  if (p.repeatTimes > 1 && (p.validBit != 15 || n[0] != n[1] || n[0] != n[2] || n[0] != n[3]))
    tla_invalid(tla::OP_mrg_sort, tla_line, "MrgSort: repeats need four queues of equal length");
  tla::twin::Issue<tla::OP_mrg_sort>(tla_line, dst.word(), src.src1.word(), src.src2.word(), src.src3.word(),
                                     src.src4.word(), p.elementLengths[0], p.elementLengths[1], p.elementLengths[2],
                                     p.elementLengths[3], p.validBit, p.repeatTimes);
}

template <typename T>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& p, uint64_t& rsvdCnt,
                       TLA_LINE) {
  TLA_REQUIRE(OP_gather_mask, "GatherMask", T, T);
  if (!reduceMode)
    tla_invalid(tla::OP_gather_mask, tla_line, "GatherMask: only counter mode (reduceMode = true) is modelled");
  rsvdCnt = 0;
  tla::twin::Issue<tla::OP_gather_mask>(tla_line, dst.word(), src0.word(), src1Pattern, mask, p.repeatTimes,
                                        p.src0BlockStride, p.src0RepeatStride);
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_SHUFFLE_H_
