/*!
 * \file memory.h
 * \brief TPipe, TBuf, TQue and the allocator of the static style: who owns which bytes of the on-chip memories.
 */
#ifndef TILELANG_ASCEND_TWIN_MEMORY_H_
#define TILELANG_ASCEND_TWIN_MEMORY_H_

#include "twin/sync.h"

namespace AscendC {

/*! \brief A piece of one memory without synchronisation. */
template <TPosition pos = TPosition::LCM>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() const {
    return LocalTensor<T>(pos, addr_, static_cast<uint32_t>(len_ / sizeof(T)));
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t len) const {
    return GetWithOffset<T>(len, 0);
  }
  /*! \brief `size` elements of T, `bufOffset` bytes into the piece. */
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset, TLA_LINE) const {
    if (bufOffset % 32 != 0) tla_invalid(-1, tla_line, "GetWithOffset: the offset is not a multiple of 32 bytes");
    if (bufOffset + size * sizeof(T) > len_) tla_invalid(-1, tla_line, "GetWithOffset: beyond the end of the TBuf");
    return LocalTensor<T>(pos, addr_ + bufOffset, size);
  }

 private:
  friend class TPipe;
  uint32_t addr_ = 0;
  uint32_t len_ = 0;
};

/*! \brief Pipe pairs of a queue position: filled before the data is used, and free again afterwards. */
template <TPosition pos>
struct QueueEvents {
  static constexpr HardEvent kFull = HardEvent::MTE2_V, kFree = HardEvent::V_MTE2;
};
template <>
struct QueueEvents<TPosition::VECOUT> {
  static constexpr HardEvent kFull = HardEvent::V_MTE3, kFree = HardEvent::MTE3_V;
};
template <>
struct QueueEvents<TPosition::A1> {
  static constexpr HardEvent kFull = HardEvent::MTE2_MTE1, kFree = HardEvent::MTE1_MTE2;
};
template <>
struct QueueEvents<TPosition::B1> : QueueEvents<TPosition::A1> {};
template <>
struct QueueEvents<TPosition::A2> {
  static constexpr HardEvent kFull = HardEvent::MTE1_M, kFree = HardEvent::M_MTE1;
};
template <>
struct QueueEvents<TPosition::B2> : QueueEvents<TPosition::A2> {};
template <>
struct QueueEvents<TPosition::CO1> {
  static constexpr HardEvent kFull = HardEvent::M_FIX, kFree = HardEvent::FIX_M;
};

/*!
 * \brief A queue of equal buffers with the flags that make it safe.
 *
 * Slots are used in turn. AllocTensor waits until the slot's former user has freed it, EnQue raises the flag of a
 * full slot, DeQue waits for it, FreeTensor raises the flag of a free slot.
 */
template <TPosition pos, int32_t depth = 1, auto mask = 0>
class TQue {
 public:
  template <typename T>
  LocalTensor<T> AllocTensor(TLA_LINE) {
    const uint32_t slot = allocated_++ % num_;
    if (*freed_ >> (event_ + slot) & 1)
      WaitFlag<QueueEvents<pos>::kFree>(event_ + static_cast<int32_t>(slot), tla_line);
    *freed_ &= ~(1u << (event_ + slot));
    LocalTensor<T> tensor(pos, addr_ + slot * len_, static_cast<uint32_t>(len_ / sizeof(T)));
    tensor.event = static_cast<int8_t>(event_ + static_cast<int32_t>(slot));
    return tensor;
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor, TLA_LINE) {
    queue_[tail_++ % kSlots] = static_cast<uint32_t>(tensor.event - event_);
    SetFlag<QueueEvents<pos>::kFull>(tensor.event, tla_line);
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue(TLA_LINE) {
    const uint32_t slot = queue_[head_++ % kSlots];
    LocalTensor<T> tensor(pos, addr_ + slot * len_, static_cast<uint32_t>(len_ / sizeof(T)));
    tensor.event = static_cast<int8_t>(event_ + static_cast<int32_t>(slot));
    WaitFlag<QueueEvents<pos>::kFull>(tensor.event, tla_line);
    return tensor;
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor, TLA_LINE) {
    SetFlag<QueueEvents<pos>::kFree>(tensor.event, tla_line);
    *freed_ |= 1u << tensor.event;
  }

 private:
  friend class TPipe;
  static constexpr uint32_t kSlots = 8;
  uint32_t addr_ = 0, len_ = 0, num_ = 1;
  int32_t event_ = 0;
  uint32_t allocated_ = 0, head_ = 0, tail_ = 0;
  uint32_t* freed_ = nullptr;  // in the pipe: bit i is set while flag i of a free slot is up
  uint32_t queue_[kSlots] = {};
};
template <TPosition pos, int32_t depth, auto mask = 0>
using TQueBind = TQue<pos, depth, mask>;

/*! \brief Hands out the bytes of every memory from address 0 upwards; at its end it takes down the flags its queues
 * left up. */
class TPipe {
 public:
  TPipe() = default;
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;
  ~TPipe() { Destroy(); }
  template <TPosition pos>
  bool InitBuffer(TBuf<pos>& buf, uint32_t len, TLA_LINE) {
    buf.len_ = RoundUp(len);
    buf.addr_ = Take(pos, buf.len_, tla_line);
    return true;
  }
  template <TPosition pos, int32_t depth, auto mask>
  bool InitBuffer(TQue<pos, depth, mask>& que, uint8_t num, uint32_t len, TLA_LINE) {
    que.num_ = num;
    que.len_ = RoundUp(len);
    que.addr_ = Take(pos, que.len_ * num, tla_line);
    uint8_t& next = next_event_[static_cast<int>(QueueEvents<pos>::kFull)];
    que.event_ = next;
    que.freed_ = &freed_[static_cast<int>(QueueEvents<pos>::kFree)];
    next = static_cast<uint8_t>(next + num);
    return true;
  }
  template <HardEvent event>
  TEventID AllocEventID() {
    return static_cast<TEventID>(next_event_[static_cast<int>(event)]++);
  }
  template <HardEvent event>
  TEventID FetchEventID() {
    return static_cast<TEventID>(next_event_[static_cast<int>(event)]);
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID) {
    --next_event_[static_cast<int>(event)];
  }
  void Init() {}
  /*! \brief Ends the pipe's own synchronisation; buffers stay where they are. */
  void Destroy(TLA_LINE) {
    for (int event = 0; event < static_cast<int>(HardEvent::MAX); ++event) {
      for (int id = 0; id < 8; ++id) {
        if (!(freed_[event] >> id & 1)) continue;
        tla::twin::Issue<tla::OP_wait_flag>(tla_line, tla::twin::EventCode(static_cast<HardEvent>(event)), id);
      }
      freed_[event] = 0;
    }
  }

 private:
  static uint32_t RoundUp(uint32_t len) { return (len + 31) / 32 * 32; }
  uint32_t Take(TPosition pos, uint32_t len, int32_t line) {
    const int32_t space = static_cast<int32_t>(tla::twin::SpaceOf(pos));
    uint32_t& used = used_[space];
    const uint32_t addr = used;
    used += len;
    if (used > tla_capacity(space)) {
      char why[120];
      std::snprintf(why, sizeof(why), "InitBuffer: %lld bytes are in use, the memory has %lld",
                    static_cast<long long>(used), static_cast<long long>(tla_capacity(space)));
      tla_invalid(-1, line, why);
    }
    return addr;
  }
  uint32_t used_[8] = {};
  uint8_t next_event_[static_cast<int>(HardEvent::MAX)] = {};
  uint32_t freed_[static_cast<int>(HardEvent::MAX)] = {};
};

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_MEMORY_H_
