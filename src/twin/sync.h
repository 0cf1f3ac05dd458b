/*!
 * \file sync.h
 * \brief Flags, barriers, cross-core flags, atomics and identity of the core.
 */
#ifndef TILELANG_ASCEND_TWIN_SYNC_H_
#define TILELANG_ASCEND_TWIN_SYNC_H_

#include "twin/tensor.h"

namespace tla {
namespace twin {

#define TLA_EVENT_NAME(name) #name,
constexpr const char* kEventText[] = {TLA_HARD_EVENTS(TLA_EVENT_NAME)};
#undef TLA_EVENT_NAME

constexpr bool SameText(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

/*! \brief Attribute code of a flag event, -1 when the table has no such event. */
constexpr int64_t EventCode(AscendC::HardEvent event) {
  int64_t code = 0;
  for (const char* name : kEvents) {
    if (SameText(name, kEventText[static_cast<int>(event)])) return code;
    ++code;
  }
  return -1;
}

constexpr int64_t BarrierCode(pipe_t pipe) {
  switch (pipe) {
    case PIPE_V:
      return tla::ATTR_pipe_barrier_pipe_V;
    case PIPE_M:
      return tla::ATTR_pipe_barrier_pipe_M;
    case PIPE_MTE1:
      return tla::ATTR_pipe_barrier_pipe_MTE1;
    case PIPE_MTE2:
      return tla::ATTR_pipe_barrier_pipe_MTE2;
    case PIPE_MTE3:
      return tla::ATTR_pipe_barrier_pipe_MTE3;
    case PIPE_FIX:
      return tla::ATTR_pipe_barrier_pipe_FIX;
    case PIPE_ALL:
      return tla::ATTR_pipe_barrier_pipe_ALL;
    default:
      return -1;
  }
}

constexpr int64_t CrossPipeCode(pipe_t pipe) {
  switch (pipe) {
    case PIPE_V:
      return tla::ATTR_cross_core_set_flag_pipe_V;
    case PIPE_M:
      return tla::ATTR_cross_core_set_flag_pipe_M;
    case PIPE_MTE1:
      return tla::ATTR_cross_core_set_flag_pipe_MTE1;
    case PIPE_MTE2:
      return tla::ATTR_cross_core_set_flag_pipe_MTE2;
    case PIPE_MTE3:
      return tla::ATTR_cross_core_set_flag_pipe_MTE3;
    case PIPE_FIX:
      return tla::ATTR_cross_core_set_flag_pipe_FIX;
    default:
      return -1;
  }
}

/*! \brief Attribute code of an atomic element type, -1 when atomics do not know it. */
template <typename T>
constexpr int64_t AtomicCode() {
  if (std::is_same<T, float>::value) return tla::ATTR_set_atomic_dtype_float32;
  if (std::is_same<T, half>::value) return tla::ATTR_set_atomic_dtype_float16;
  if (std::is_same<T, int16_t>::value) return tla::ATTR_set_atomic_dtype_int16;
  if (std::is_same<T, int32_t>::value) return tla::ATTR_set_atomic_dtype_int32;
  if (std::is_same<T, int8_t>::value) return tla::ATTR_set_atomic_dtype_int8;
  if (std::is_same<T, bfloat16_t>::value) return tla::ATTR_set_atomic_dtype_bfloat16;
  return -1;
}

template <typename T>
inline void SetAtomic(int64_t op, int32_t line) {
  static_assert(AtomicCode<T>() >= 0, "atomic writes know int8, int16, int32, half, bfloat16 and float");
  Issue<tla::OP_set_atomic>(line, op, AtomicCode<T>());
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

template <HardEvent event>
inline void SetFlag(int32_t eventID, TLA_LINE) {
  static_assert(tla::twin::EventCode(event) >= 0, "this pair of pipes has no flags");
  tla::twin::Issue<tla::OP_set_flag>(tla_line, tla::twin::EventCode(event), eventID);
}

template <HardEvent event>
inline void WaitFlag(int32_t eventID, TLA_LINE) {
  static_assert(tla::twin::EventCode(event) >= 0, "this pair of pipes has no flags");
  tla::twin::Issue<tla::OP_wait_flag>(tla_line, tla::twin::EventCode(event), eventID);
}

template <pipe_t pipe>
inline void PipeBarrier(TLA_LINE) {
  static_assert(tla::twin::BarrierCode(pipe) >= 0, "PipeBarrier does not work on the scalar pipe");
  tla::twin::Issue<tla::OP_pipe_barrier>(tla_line, tla::twin::BarrierCode(pipe));
}

template <uint8_t modeId, pipe_t pipe>
inline void CrossCoreSetFlag(uint16_t flagId, TLA_LINE) {
  static_assert(modeId <= 2, "modes of CrossCoreSetFlag are 0, 1 and 2");
  static_assert(tla::twin::CrossPipeCode(pipe) >= 0, "CrossCoreSetFlag needs one pipe");
  tla::twin::Issue<tla::OP_cross_core_set_flag>(tla_line, modeId, tla::twin::CrossPipeCode(pipe), flagId);
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
inline void CrossCoreWaitFlag(uint16_t flagId, TLA_LINE) {
  tla::twin::Issue<tla::OP_cross_core_wait_flag>(tla_line, flagId);
}

/*! \brief Address of the synchronisation control block; only the device needs it. */
inline void SetSyncBaseAddr(uint64_t) {}

template <typename T>
inline void SetAtomicAdd(TLA_LINE) {
  tla::twin::SetAtomic<T>(tla::ATTR_set_atomic_op_add, tla_line);
}
template <typename T>
inline void SetAtomicMax(TLA_LINE) {
  tla::twin::SetAtomic<T>(tla::ATTR_set_atomic_op_max, tla_line);
}
template <typename T>
inline void SetAtomicMin(TLA_LINE) {
  tla::twin::SetAtomic<T>(tla::ATTR_set_atomic_op_min, tla_line);
}
inline void SetAtomicNone(TLA_LINE) { tla::twin::SetAtomic<float>(tla::ATTR_set_atomic_op_none, tla_line); }
inline void DisableDmaAtomic(TLA_LINE) { SetAtomicNone(tla_line); }

inline int64_t GetBlockIdx(TLA_LINE) { return tla::twin::IssueScalar<tla::OP_get_block_idx>(tla_line); }
inline int64_t GetBlockNum(TLA_LINE) { return tla::twin::IssueScalar<tla::OP_get_block_num>(tla_line); }
inline int64_t GetSubBlockIdx(TLA_LINE) { return tla::twin::IssueScalar<tla::OP_get_sub_block_idx>(tla_line); }

/*! \brief Puts a core into its initial state; the machine starts there. */
inline void InitSocState() {}

template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, TLA_LINE) {
  static_assert(entireType == CacheLine::SINGLE_CACHE_LINE, "the machine models single cache lines only");
  tla::twin::Issue<tla::OP_data_cache_clean>(tla_line, dst.word());
}

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_SYNC_H_
