/*!
 * \file tensor.h
 * \brief GlobalTensor and LocalTensor: an address with an element type, and scalar access to elements.
 */
#ifndef TILELANG_ASCEND_TWIN_TENSOR_H_
#define TILELANG_ASCEND_TWIN_TENSOR_H_

#include "twin/issue.h"

namespace tla {
namespace twin {

/*! \brief Operand word (docs/ir.md section 4). */
template <typename T>
inline int64_t Word(Space space, uint64_t offset) {
  return static_cast<int64_t>(static_cast<uint64_t>(space) << 56 | static_cast<uint64_t>(Code<T>::value) << 48 |
                              (offset & 0xffffffffffffull));
}

/*! \brief Operand word of a place in a tile. The offset may lie outside of it, in front of it even: the machine tells.
 */
template <typename T>
inline int64_t TileWord(Space space, int32_t tile, uint32_t addr) {
  if (tile == 0) return Word<T>(space, addr);
  const int64_t biased = (int64_t{1} << 31) + static_cast<int32_t>(addr);
  return Word<T>(space, static_cast<uint64_t>(tile) << 32 | static_cast<uint64_t>(biased));
}

/*! \brief Operand word of what `LocalTensor::GetPhyAddr` gives. */
template <typename T>
inline int64_t PlaceWord(Space space, uint64_t place) {
  return TileWord<T>(space, static_cast<int32_t>(place >> 32), static_cast<uint32_t>(place));
}

template <typename T>
inline T ReadElement(int64_t word, int32_t line) {
  return ScalarValue<T>(IssueScalar<tla::OP_get_value>(line, word));
}

template <typename T>
inline void WriteElement(int64_t word, T value, int32_t line) {
  Issue<tla::OP_set_value>(line, word, ScalarBits<T>(value));
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

/*! \brief A tensor in global memory. */
template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;
  void SetGlobalBuffer(T* buffer, uint64_t size = 0) {
    address_ = buffer;
    size_ = size;
  }
  /*! \brief A hint for the memory system: it changes no value. */
  template <CacheRwMode kRw = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor part;
    part.SetGlobalBuffer(address_ + offset, offset < size_ ? size_ - offset : 0);
    return part;
  }
  T GetValue(uint64_t offset, TLA_LINE) const { return tla::twin::ReadElement<T>((*this)[offset].word(), tla_line); }
  void SetValue(uint64_t offset, T value, TLA_LINE) const {
    tla::twin::WriteElement<T>((*this)[offset].word(), value, tla_line);
  }
  const T* GetPhyAddr() const { return address_; }
  T* GetPhyAddr(uint64_t offset) const { return address_ + offset; }
  uint64_t GetSize() const { return size_; }
  template <typename U>
  GlobalTensor<U> ReinterpretCast() const {
    GlobalTensor<U> view;
    view.SetGlobalBuffer(reinterpret_cast<U*>(address_), size_ * sizeof(T) / sizeof(U));
    return view;
  }
  int64_t word() const { return tla::twin::Word<T>(tla::twin::Space::kGM, reinterpret_cast<uint64_t>(address_)); }

 private:
  T* address_ = nullptr;
  uint64_t size_ = 0;
};

/*! \brief A tensor in one of the memories of a core: byte address and number of elements. */
template <typename T>
class LocalTensor {
 public:
  using PrimType = T;
  LocalTensor() = default;
  /*! \brief Static style: `size` elements at byte `addr` of the memory behind `pos`. */
  LocalTensor(TPosition pos, uint32_t addr, uint32_t size)
      : pos_(pos), addr_(addr), size_(size), tile_(DeclareTile(pos, addr, size)) {}
  LocalTensor operator[](uint32_t offset) const {
    LocalTensor part = *this;
    part.addr_ = addr_ + offset * static_cast<uint32_t>(sizeof(T));
    part.size_ = offset < size_ ? size_ - offset : 0;
    return part;
  }
  T GetValue(uint32_t index, TLA_LINE) const { return tla::twin::ReadElement<T>((*this)[index].word(), tla_line); }
  template <typename V>
  void SetValue(uint32_t index, V value, TLA_LINE) const {
    tla::twin::WriteElement<T>((*this)[index].word(), static_cast<T>(value), tla_line);
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> view;
    view.pos_ = pos_;
    view.addr_ = addr_;
    view.size_ = static_cast<uint32_t>(size_ * sizeof(T) / sizeof(U));
    view.tile_ = tile_;
    view.event = event;
    return view;
  }
  /*! \brief A number that counts bytes and remembers its tile (`PlaceWord`). */
  uint64_t GetPhyAddr() const { return static_cast<uint64_t>(tile_) << 32 | addr_; }
  uint64_t GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + offset * sizeof(T); }
  uint32_t GetSize() const { return size_; }
  uint32_t GetLength() const { return static_cast<uint32_t>(size_ * sizeof(T)); }
  TPosition GetPosition() const { return pos_; }
  void SetSize(uint32_t size) { size_ = size; }
  int64_t word() const { return tla::twin::TileWord<T>(tla::twin::SpaceOf(pos_), tile_, addr_); }

  /*! \brief Flag of the queue slot the tensor came from, -1 for none. */
  int8_t event = -1;

 private:
  template <typename U>
  friend class LocalTensor;
  static int32_t DeclareTile(TPosition pos, uint32_t addr, uint32_t size) {
    const int64_t bytes = static_cast<int64_t>(size) * static_cast<int64_t>(sizeof(T));
    return tla_tile(static_cast<int32_t>(tla::twin::SpaceOf(pos)), addr, bytes, 1, bytes, nullptr);
  }

  TPosition pos_ = TPosition::VECCALC;
  uint32_t addr_ = 0;
  uint32_t size_ = 0;
  int32_t tile_ = 0;  // of the machine: indices and views stay inside
};

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_TENSOR_H_
