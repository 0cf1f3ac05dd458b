/* A queue in a ring of memory that grows and does not shrink. */
#ifndef TLA_MACHINE_RING_H_
#define TLA_MACHINE_RING_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace tla {

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& at(size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  T& front() { return ring_[head_]; }
  const T& front() const { return ring_[head_]; }
  /*! \brief A place behind the last one, with what was in it before. */
  T& push() {
    if (size_ == ring_.size()) grow();
    return at(size_++);
  }
  void pop() {
    head_ = (head_ + 1) & (ring_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> bigger(ring_.empty() ? 16 : ring_.size() * 2);
    for (size_t i = 0; i < size_; ++i) bigger[i] = std::move(at(i));
    ring_.swap(bigger);
    head_ = 0;
  }

  std::vector<T> ring_;  // its size is a power of two
  size_t head_ = 0, size_ = 0;
};

}  // namespace tla

#endif  // TLA_MACHINE_RING_H_
