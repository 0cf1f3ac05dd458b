/*!
 * \file vector_reduce.cc
 * \brief whole_reduce_*, block_reduce_*, pair_reduce_sum.
 *
 * Sums are binary trees of neighbours, rounded to the dtype at every level; a lane without a partner moves up as it is.
 * Lanes beyond `mask` take no part.
 */
#include "access.h"
#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"
#include "ops.h"

namespace tla {
namespace isa {
namespace {

/*! \brief The decoded arguments of a reduction. Strides in bytes. */
struct Reduce {
  Operand d, s;
  int size;       //!< bytes of an element
  int per_block;  //!< lanes of a 32-byte block
  int lanes;      //!< active lanes of a repeat
  int64_t repeat, d_rep, s_blk, s_rep;

  int64_t source(int64_t r, int lane) const {
    return r * s_rep + (lane / per_block) * s_blk + (lane % per_block) * size;
  }
  int blocks() const { return (lanes + per_block - 1) / per_block; }
};

/*! \brief `mask_at`, `repeat_at`: positions of two arguments; `unit`: bytes of one step of d_rep (0: one element). */
Reduce decode(const Instr& instr, int mask_at, int repeat_at, int64_t unit) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  const int size = std::max(1, itemsize(s.dtype));
  const int64_t most = kRepeatBytes / size;
  const int lanes = static_cast<int>(std::min(std::max<int64_t>(instr.args[mask_at], 0), most));
  return {d,
          s,
          size,
          kBlockBytes / size,
          lanes,
          std::max<int64_t>(instr.args[repeat_at], 0),
          instr.args[4] * (unit == 0 ? size : unit),
          instr.args[5] * kBlockBytes,
          instr.args[6] * kBlockBytes};
}

Reduce decode_whole(const Instr& instr) { return decode(instr, 2, 3, 0); }
Reduce decode_block(const Instr& instr) {
  return decode(instr, 3, 2, 8 * std::max(1, itemsize(instr.operand(1).dtype)));
}
Reduce decode_pair(const Instr& instr) { return decode(instr, 3, 2, 128); }

/*! \brief Reduce values[0, n) by a tree of neighbours; values are destroyed. */
template <class T, class Op>
T tree(T* values, int n) {
  while (n > 1) {
    int out = 0;
    for (int i = 0; i + 1 < n; i += 2) values[out++] = store<T>(Op::apply(load(values[i]), load(values[i + 1])));
    if (n % 2 != 0) values[out++] = values[n - 1];
    n = out;
  }
  return values[0];
}

/*! \brief An undefined lane that is accumulated matters: report it and go on as if it were defined. */
void check_sources(ExecContext& ctx, const Instr& instr, const Reduce& p, int64_t r) {
  uint8_t* shadow = ctx.shadow(p.s);
  if (shadow == nullptr) return;
  for (int lane = 0; lane < p.lanes; lane += p.per_block) {
    const int64_t at = p.source(r, lane);
    const int64_t bytes = std::min(p.per_block, p.lanes - lane) * p.size;
    if (!any_undefined(shadow + at, bytes)) continue;
    ctx.report_undefined(instr, p.s.space, p.s.offset + at, bytes, "lane of a reduction");
    std::memset(shadow + at, 0, static_cast<size_t>(bytes));
  }
}

/*! \brief Copy the active lanes of repeat r to `values`. */
template <class T>
void gather_lanes(ExecContext& ctx, const Reduce& p, int64_t r, T* values) {
  const uint8_t* s = ctx.data(p.s);
  for (int lane = 0; lane < p.lanes; lane += p.per_block) {
    const int n = std::min(p.per_block, p.lanes - lane);
    std::memcpy(values + lane, s + p.source(r, lane), static_cast<size_t>(n * p.size));
  }
}

constexpr int kMaxLanes = kRepeatBytes;

template <class Op>
int64_t exec_whole(ExecContext& ctx, const Instr& instr) {
  const Reduce p = decode_whole(instr);
  with_type_or_report(FloatTypes{}, p.s.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    for (int64_t r = 0; r < p.repeat && p.lanes > 0; ++r) {
      check_sources(ctx, instr, p, r);
      T values[kMaxLanes];
      gather_lanes(ctx, p, r, values);
      const T result = tree<T, Op>(values, p.lanes);
      std::memcpy(ctx.data(p.d) + r * p.d_rep, &result, sizeof(T));
      mark_defined(ctx, p.d, r * p.d_rep, sizeof(T));
    }
  });
  return 0;
}

template <class Op>
int64_t exec_block(ExecContext& ctx, const Instr& instr) {
  const Reduce p = decode_block(instr);
  with_type_or_report(FloatTypes{}, p.s.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    for (int64_t r = 0; r < p.repeat && p.lanes > 0; ++r) {
      check_sources(ctx, instr, p, r);
      T values[kMaxLanes];
      gather_lanes(ctx, p, r, values);
      for (int b = 0; b < p.blocks(); ++b) {
        const int lanes = std::min(p.per_block, p.lanes - b * p.per_block);
        const T result = tree<T, Op>(values + b * p.per_block, lanes);
        std::memcpy(ctx.data(p.d) + r * p.d_rep + b * p.size, &result, sizeof(T));
      }
      mark_defined(ctx, p.d, r * p.d_rep, p.blocks() * p.size);
    }
  });
  return 0;
}

int64_t exec_pair(ExecContext& ctx, const Instr& instr) {
  const Reduce p = decode_pair(instr);
  const int results = (p.lanes + 1) / 2;
  with_type_or_report(FloatTypes{}, p.s.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    for (int64_t r = 0; r < p.repeat && p.lanes > 0; ++r) {
      check_sources(ctx, instr, p, r);
      T values[kMaxLanes];
      gather_lanes(ctx, p, r, values);
      for (int i = 0; i < results; ++i) values[i] = tree<T, Add>(values + 2 * i, std::min(2, p.lanes - 2 * i));
      std::memcpy(ctx.data(p.d) + r * p.d_rep, values, static_cast<size_t>(results) * sizeof(T));
      mark_defined(ctx, p.d, r * p.d_rep, results * static_cast<int64_t>(sizeof(T)));
    }
  });
  return 0;
}

// ---- accesses ------------------------------------------------------------------------------------------------------

/*! \brief Sources: whole blocks, then the lanes of a last partial block. Destination: `bytes` per repeat. */
void reduce_accesses(const Reduce& p, int64_t bytes, int align, AccessList& out) {
  if (p.lanes == 0) return;
  const int full = p.lanes / p.per_block, tail = p.lanes % p.per_block;
  push_access(out, p.s, false, kBlockBytes, 0, kBlockBytes, full, p.s_blk, p.repeat, p.s_rep);
  push_access(out, p.s, false, kBlockBytes, full * p.s_blk, tail * p.size, p.repeat, p.s_rep);
  push_access(out, p.d, true, align, 0, bytes, p.repeat, p.d_rep);
}

void whole_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Reduce p = decode_whole(instr);
  reduce_accesses(p, p.size, p.size, out);
}

void block_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Reduce p = decode_block(instr);
  reduce_accesses(p, p.blocks() * p.size, 8 * p.size, out);
}

void pair_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Reduce p = decode_pair(instr);
  reduce_accesses(p, (p.lanes + 1) / 2 * p.size, kBlockBytes, out);
}

template <int kRepeatAt>
Cost reduce_cost(const Instr& instr, const ChipParams& chip) {
  const int size = std::max(1, itemsize(instr.operand(1).dtype));
  const double repeats = static_cast<double>(std::max<int64_t>(instr.args[kRepeatAt], 0));
  return lanes_cost(instr, chip, size, repeats * (kRepeatBytes / size));
}

constexpr ImplRow kRows[] = {
    {OP_whole_reduce_sum, {exec_whole<Add>, whole_accesses, reduce_cost<3>, nullptr}},
    {OP_whole_reduce_max, {exec_whole<Max>, whole_accesses, reduce_cost<3>, nullptr}},
    {OP_whole_reduce_min, {exec_whole<Min>, whole_accesses, reduce_cost<3>, nullptr}},
    {OP_block_reduce_sum, {exec_block<Add>, block_accesses, reduce_cost<2>, nullptr}},
    {OP_block_reduce_max, {exec_block<Max>, block_accesses, reduce_cost<2>, nullptr}},
    {OP_block_reduce_min, {exec_block<Min>, block_accesses, reduce_cost<2>, nullptr}},
    {OP_pair_reduce_sum, {exec_pair, pair_accesses, reduce_cost<2>, nullptr}},
};

}  // namespace

ImplRows vector_reduce_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
