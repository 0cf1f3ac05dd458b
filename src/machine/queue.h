/* The in-order queue in front of one pipe. */
#ifndef TLA_MACHINE_QUEUE_H_
#define TLA_MACHINE_QUEUE_H_

#include <cstddef>
#include <cstdint>

#include "clock.h"
#include "instr.h"
#include "ring.h"

namespace tla {

/*! \brief Longest instruction of the stream, in 64-bit arguments (docs/ir.md section 4). */
constexpr int kMaxArgs = 24;

enum class ItemKind : uint8_t { kExec, kSetFlag, kWaitFlag, kBarrier, kCrossSet };

/*! \brief What waits in the queue of a pipe: an instruction, a flag operation or a barrier. */
struct Item {
  ItemKind kind = ItemKind::kExec;
  uint8_t mode = 0;   //!< kCrossSet
  int16_t event = 0;  //!< kSetFlag, kWaitFlag: event code
  int16_t id = 0;     //!< flag id
  Instr instr;        //!< `args` is set by `PipeQueue::front`
  SharedClock fence;  //!< what the scalar pipe had waited for (other cores) when it issued the item
  int64_t args[kMaxArgs];
};

/*! \brief Items in order. */
class PipeQueue {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  /*! \brief Appends; the arguments behind `item.instr.args` are copied. */
  void push(const Item& item) {
    Item& slot = items_.push();
    slot.kind = item.kind;
    slot.mode = item.mode;
    slot.event = item.event;
    slot.id = item.id;
    slot.instr = item.instr;
    slot.fence = item.fence;
    for (int i = 0; i < item.instr.nargs; ++i) slot.args[i] = item.instr.args[i];
  }
  Item& at(size_t i) {
    Item& item = items_.at(i);
    item.instr.args = item.args;
    return item;
  }
  Item& front() { return at(0); }
  void pop() {
    items_.front().fence.reset();
    items_.pop();
  }

 private:
  Ring<Item> items_;
};

}  // namespace tla

#endif  // TLA_MACHINE_QUEUE_H_
