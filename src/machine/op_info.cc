#include "op_info.h"

#include <cassert>

#include "queue.h"

namespace tla {
namespace {

OpTable make_table() {
  OpTable t;
  for (int i = 0; i < kNumOps; ++i) {
    t.op[i].slot = static_cast<uint8_t>(slot_of_pipe(kOpPipe[i]));
    t.op[i].returns = kOpReturns[i] != 0;
    t.op[i].first_operand = static_cast<uint8_t>(kOpNumAttrs[i]);
    t.op[i].num_operands = static_cast<uint8_t>(kOpNumOperands[i]);
    t.op[i].num_args = static_cast<uint8_t>(kOpNumAttrs[i] + kOpNumOperands[i] + kOpNumArgs[i]);
    assert(t.op[i].num_args <= kMaxArgs);
  }
  t.op[OP_set_flag].kind = OpKind::kSetFlag;
  t.op[OP_wait_flag].kind = OpKind::kWaitFlag;
  t.op[OP_pipe_barrier].kind = OpKind::kBarrier;
  t.op[OP_cross_core_set_flag].kind = OpKind::kCrossSet;
  t.op[OP_cross_core_wait_flag].kind = OpKind::kCrossWait;
  t.op[OP_set_atomic].kind = OpKind::kSetAtomic;
  t.op[OP_get_block_idx].kind = OpKind::kBlockIdx;
  t.op[OP_get_sub_block_idx].kind = OpKind::kSubBlockIdx;
  t.op[OP_get_block_num].kind = OpKind::kBlockNum;
  for (int i = 0; i < kNumEvents; ++i) {
    t.events[i] = {static_cast<uint8_t>(slot_of_pipe(kEventPipes[i][0])),
                   static_cast<uint8_t>(slot_of_pipe(kEventPipes[i][1]))};
  }
  return t;
}

}  // namespace

const OpTable& OpTable::get() {
  static const OpTable table = make_table();
  return table;
}

int barrier_slot(int64_t code) {
  switch (code) {
    case ATTR_pipe_barrier_pipe_V:
      return kV;
    case ATTR_pipe_barrier_pipe_M:
      return kM;
    case ATTR_pipe_barrier_pipe_MTE1:
      return kMTE1;
    case ATTR_pipe_barrier_pipe_MTE2:
      return kMTE2;
    case ATTR_pipe_barrier_pipe_MTE3:
      return kMTE3;
    case ATTR_pipe_barrier_pipe_FIX:
      return kFIX;
    case ATTR_pipe_barrier_pipe_ALL:
      return kSlotAll;
    default:
      return kSlotNone;
  }
}

int cross_slot(int64_t code) {
  switch (code) {
    case ATTR_cross_core_set_flag_pipe_V:
      return kV;
    case ATTR_cross_core_set_flag_pipe_M:
      return kM;
    case ATTR_cross_core_set_flag_pipe_MTE1:
      return kMTE1;
    case ATTR_cross_core_set_flag_pipe_MTE2:
      return kMTE2;
    case ATTR_cross_core_set_flag_pipe_MTE3:
      return kMTE3;
    case ATTR_cross_core_set_flag_pipe_FIX:
      return kFIX;
    default:
      return kSlotNone;
  }
}

int cross_mode(int64_t code) {
  switch (code) {
    case ATTR_cross_core_set_flag_mode_0:
      return 0;
    case ATTR_cross_core_set_flag_mode_1:
      return 1;
    case ATTR_cross_core_set_flag_mode_2:
      return 2;
    default:
      return -1;
  }
}

AtomicOp atomic_op_of(int64_t code) {
  switch (code) {
    case ATTR_set_atomic_op_add:
      return kAtomicAdd;
    case ATTR_set_atomic_op_max:
      return kAtomicMax;
    case ATTR_set_atomic_op_min:
      return kAtomicMin;
    default:
      return kAtomicNone;
  }
}

uint8_t atomic_dtype_of(int64_t code) {
  switch (code) {
    case ATTR_set_atomic_dtype_float32:
      return kFloat32;
    case ATTR_set_atomic_dtype_float16:
      return kFloat16;
    case ATTR_set_atomic_dtype_bfloat16:
      return kBFloat16;
    case ATTR_set_atomic_dtype_int16:
      return kInt16;
    case ATTR_set_atomic_dtype_int32:
      return kInt32;
    case ATTR_set_atomic_dtype_int8:
      return kInt8;
    default:
      return 0;
  }
}

}  // namespace tla
