/* What the machine needs to know about every opcode, decoded once from the generated table. */
#ifndef TLA_MACHINE_OP_INFO_H_
#define TLA_MACHINE_OP_INFO_H_

#include <cstdint>

#include "instr.h"
#include "pipes.h"

namespace tla {

/*! \brief Instructions the machine implements itself, and everything else. */
enum class OpKind : uint8_t {
  kExec,
  kSetFlag,
  kWaitFlag,
  kBarrier,
  kCrossSet,
  kCrossWait,
  kSetAtomic,
  kBlockIdx,
  kSubBlockIdx,
  kBlockNum
};

struct OpInfo {
  OpKind kind = OpKind::kExec;
  uint8_t slot = kS;
  bool returns = false;
  uint8_t first_operand = 0, num_operands = 0;
  uint8_t num_args = 0;  //!< words in the stream: attrs, operands, scalars
};

/*! \brief Pipes of a hardware event. */
struct EventInfo {
  uint8_t source = kS, destination = kS;
};

/*! \brief Decoded table; one immutable instance for the process. */
struct OpTable {
  OpInfo op[kNumOps];
  EventInfo events[kNumEvents];  //!< by code of attr `event`

  static const OpTable& get();
};

/*! \brief Name of an event code, "?" when there is none. */
inline const char* event_name(int code) { return code >= 0 && code < kNumEvents ? kEventNames[code] : "?"; }

/*! \brief Result of a slot lookup that is no single pipe. */
constexpr int kSlotAll = -1, kSlotNone = -2;

/*! \brief Slot behind attr `pipe` of pipe_barrier (kSlotAll for ALL), or of cross_core_set_flag; else kSlotNone. */
int barrier_slot(int64_t code);
int cross_slot(int64_t code);
/*! \brief Meaning of the attrs of set_atomic. */
AtomicOp atomic_op_of(int64_t code);
uint8_t atomic_dtype_of(int64_t code);
/*! \brief Cross-core mode 0, 1 or 2 behind attr `mode`, else -1. */
int cross_mode(int64_t code);

}  // namespace tla

#endif  // TLA_MACHINE_OP_INFO_H_
