/*!
 * \file lanes.h
 * \brief Which elements a vector instruction works on: the count form and the high-dimension (mask) form.
 *
 * Mask form: a repeat is 256 bytes of the widest operand, 8 blocks of 32 bytes. Lane i of an operand with E lanes per
 * block lies in repeat r at `head + r * rep + (i / E) * blk + (i % E) * itemsize`; strides come in 32-byte blocks.
 */
#ifndef TILELANG_ASCEND_ISA_LANES_H_
#define TILELANG_ASCEND_ISA_LANES_H_

#include <algorithm>

#include "../machine/instr.h"

namespace tla {
namespace isa {

constexpr int kBlockBytes = 32;
constexpr int kRepeatBytes = 256;
constexpr int kMaxOperands = 3;

/*! \brief Runs of whole blocks: d, s, block_count, block_len, src_gap, dst_gap (in blocks). */
struct BlockCopy {
  int64_t rows, bytes, s_step, d_step;
};

inline BlockCopy decode_block_copy(const Instr& instr) {
  const int64_t bytes = instr.args[3] * kBlockBytes;
  return {instr.args[2], bytes, bytes + instr.args[4] * kBlockBytes, bytes + instr.args[5] * kBlockBytes};
}

/*! \brief Where the arguments of a vector record stand: attrs, operands, scalars, then count or the mask arguments. */
struct VectorForm {
  int attrs, operands, scalars;
  bool masked;
  bool reads_destination;  //!< operand 0 is read as well (axpy, mul_add_dst, ...)

  int operand(int i) const { return attrs + i; }
  int scalar() const { return attrs + operands; }
  int rest() const { return attrs + operands + scalars; }
};

/*! \brief The decoded lanes of one instruction. Strides in bytes. */
struct Lanes {
  int operands = 0;
  int size[kMaxOperands] = {};
  bool masked = false;
  int64_t count = 0;  //!< count form
  int per_repeat = 0;
  uint64_t mask_lo = 0, mask_hi = 0;
  int64_t repeat = 0;
  int64_t blk[kMaxOperands] = {}, rep[kMaxOperands] = {};

  /*! \brief Repeats the pipe runs through; the count form runs 256 bytes at a time. */
  int64_t repeats() const { return masked ? repeat : (count + per_repeat - 1) / per_repeat; }

  bool lane_on(int i) const { return ((i < 64 ? mask_lo >> i : mask_hi >> (i - 64)) & 1) != 0; }
  /*! \brief Number of leading lanes that are on if no other lane is, else -1. */
  int prefix() const;
};

/*! \brief Decode an instruction of the given form. Dtypes without a size count as one byte. */
Lanes decode_lanes(const Instr& instr, const VectorForm& form);

/*!
 * \brief Call `fn(offsets, n)` for runs of lanes that are contiguous in every operand, in execution order.
 * `offsets[i]` is the byte offset of the run from the head of operand i.
 */
template <class Fn>
void for_each_run(const Lanes& l, Fn&& fn) {
  int64_t at[kMaxOperands] = {};
  if (!l.masked) {
    if (l.count > 0) fn(at, l.count);
    return;
  }
  bool dense_blocks = true, dense_repeats = true;
  int group = kBlockBytes;
  for (int i = 0; i < l.operands; ++i) {
    dense_blocks = dense_blocks && l.blk[i] == kBlockBytes;
    dense_repeats = dense_repeats && l.rep[i] == static_cast<int64_t>(l.per_repeat) * l.size[i];
    group = std::min(group, kBlockBytes / l.size[i]);
  }
  const int prefix = l.prefix();
  if (dense_blocks && dense_repeats && prefix == l.per_repeat) {
    if (l.repeat > 0) fn(at, l.repeat * prefix);
    return;
  }
  for (int64_t r = 0; r < l.repeat; ++r) {
    if (dense_blocks && prefix >= 0) {
      for (int i = 0; i < l.operands; ++i) at[i] = r * l.rep[i];
      if (prefix > 0) fn(at, static_cast<int64_t>(prefix));
      continue;
    }
    for (int lane = 0; lane < l.per_repeat;) {
      // A run ends at a masked-off lane and at the end of the smallest block among the operands.
      const int end = (lane / group + 1) * group;
      if (!l.lane_on(lane)) {
        ++lane;
        continue;
      }
      int stop = lane + 1;
      while (stop < end && l.lane_on(stop)) ++stop;
      for (int i = 0; i < l.operands; ++i) {
        const int per_block = kBlockBytes / l.size[i];
        at[i] = r * l.rep[i] + (lane / per_block) * l.blk[i] + (lane % per_block) * l.size[i];
      }
      fn(at, static_cast<int64_t>(stop - lane));
      lane = stop;
    }
  }
}

/*! \brief Append the exact accesses of operand `i`. */
void append_lane_accesses(const Operand& operand, const Lanes& lanes, int i, bool write, AccessList& out);

/*! \brief All accesses of an instruction of the given form: operand 0 is written, the others are read. */
void append_form_accesses(const Instr& instr, const VectorForm& form, AccessList& out);

/*! \brief A loop over `n` contiguous lanes. `scalar` is the raw stream argument. */
using LaneLoop = void (*)(uint8_t* d, const uint8_t* s0, const uint8_t* s1, int64_t scalar, int64_t n);

/*! \brief Undefined bits of a result byte from the undefined bits u and the data bits v of its two source bytes. */
using BitRule = uint8_t (*)(uint8_t u0, uint8_t u1, uint8_t v0, uint8_t v1);

/*!
 * \brief Run a loop over all lanes and let undefined lanes travel to the destination. `scalar` is handed to the loop.
 * With a `rule`, undefined bits travel one by one; all operands have one dtype then.
 */
void run_lanes(ExecContext& ctx, const Instr& instr, const VectorForm& form, LaneLoop loop, int64_t scalar,
               BitRule rule = nullptr);

/*! \brief Like above with the scalar argument of the form, 0 when it has none. */
inline void run_lanes(ExecContext& ctx, const Instr& instr, const VectorForm& form, LaneLoop loop) {
  run_lanes(ctx, instr, form, loop, form.scalars > 0 ? instr.args[form.scalar()] : 0);
}

/*! \brief A destination lane is wholly undefined where any source lane has an undefined bit, else defined. */
void propagate_undefined(uint8_t* d, int d_size, const uint8_t* const* src, const int* src_size, int num_src,
                         int64_t n);

/*! \brief True when any of `n` shadow bytes has an undefined bit. */
bool any_undefined(const uint8_t* shadow, int64_t n);

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_LANES_H_
