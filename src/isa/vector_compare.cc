/*!
 * \file vector_compare.cc
 * \brief compare, compare_scalar (results as bits), select, select_scalar.
 *
 * A comparison with NaN is false in every mode, `ne` included (facts: Compare edge values). Undefined lanes are tracked
 * bit by bit through masks: padding lanes of a tile are undefined, and so are their bits. A lane selected by an
 * undefined bit is undefined.
 */
#include "access.h"
#include "elementwise.h"

namespace tla {
namespace isa {
namespace {

enum CompareMode : int64_t { kLt = 0, kGt, kEq, kLe, kGe, kNe };

template <int64_t mode, class C>
TLA_INLINE bool holds(C a, C b) {
  switch (mode) {
    case kLt:
      return a < b;
    case kGt:
      return a > b;
    case kEq:
      return a == b;
    case kLe:
      return a <= b;
    case kGe:
      return a >= b;
    default:
      return a < b || a > b;
  }
}

/*! \brief Byte i of `d` = s0[i] <mode> s1[i], 0 or 1; s1 null: compare with the scalar. */
template <class T, int64_t mode>
struct CompareLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t* s1, int64_t scalar, int64_t n) {
    const T* a = reinterpret_cast<const T*>(s0);
    const T* b = reinterpret_cast<const T*>(s1);
    if (b == nullptr) {
      const auto value = decode_scalar<T>(scalar);
      TLA_IVDEP
      for (int64_t i = 0; i < n; ++i) d[i] = holds<mode>(load(a[i]), value);
      return;
    }
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) d[i] = holds<mode>(load(a[i]), load(b[i]));
  }
};

template <class T>
LaneLoop compare_loop(int64_t mode) {
  switch (mode) {
    case kLt:
      return lane_loop<CompareLoop<T, kLt>>();
    case kGt:
      return lane_loop<CompareLoop<T, kGt>>();
    case kEq:
      return lane_loop<CompareLoop<T, kEq>>();
    case kLe:
      return lane_loop<CompareLoop<T, kLe>>();
    case kGe:
      return lane_loop<CompareLoop<T, kGe>>();
    case kNe:
      return lane_loop<CompareLoop<T, kNe>>();
    default:
      return nullptr;
  }
}

constexpr int kChunk = 256;  // lanes compared at a time; a multiple of 8

/*! \brief Pack n 0/1 bytes into bits, from bit `first` of `d` on; other bits stay. */
void pack_bits(const uint8_t* flags, int64_t n, uint8_t* d, int64_t first) {
  int64_t i = 0;
  for (; (first + i) % 8 == 0 && i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, flags + i, sizeof(word));
    d[(first + i) / 8] = static_cast<uint8_t>((word * 0x0102040810204080ull) >> 56);
  }
  for (; i < n; ++i) {
    const int64_t bit = first + i;
    const uint8_t one = static_cast<uint8_t>(1u << (bit % 8));
    d[bit / 8] = static_cast<uint8_t>(flags[i] ? d[bit / 8] | one : d[bit / 8] & ~one);
  }
}

struct CompareShape {
  Lanes lanes;  //!< operands 1, 2 are the sources; operand 0 is not described
  int sources;
  int64_t scalar;
};

/*! \brief Bits of `n` lanes starting at result bit `bit`, sources at the given byte offsets. */
void compare_run(ExecContext& ctx, const Instr& instr, LaneLoop loop, const CompareShape& shape, int64_t bit,
                 const int64_t* at, int64_t n) {
  const Operand d = instr.operand(1), s0 = instr.operand(2);
  const int size = shape.lanes.size[1];
  const uint8_t* a = ctx.data(s0) + at[0];
  const uint8_t* b = shape.sources == 2 ? ctx.data(instr.operand(3)) + at[1] : nullptr;
  uint8_t* shadow = ctx.shadow(d);
  const uint8_t* sa = shadow ? ctx.shadow(s0) + at[0] : nullptr;
  const uint8_t* sb = shadow && b ? ctx.shadow(instr.operand(3)) + at[1] : nullptr;
  uint8_t flags[kChunk];
  for (int64_t done = 0; done < n; done += kChunk) {
    const int64_t m = std::min<int64_t>(kChunk, n - done);
    loop(flags, a + done * size, b ? b + done * size : nullptr, shape.scalar, m);
    pack_bits(flags, m, ctx.data(d), bit + done);
    if (shadow == nullptr) continue;
    const uint8_t* src[2] = {sa + done * size, sb ? sb + done * size : nullptr};
    const int sizes[2] = {size, size};
    propagate_undefined(flags, 1, src, sizes, shape.sources, m);
    for (int64_t i = 0; i < m; ++i) flags[i] &= 1;
    pack_bits(flags, m, shadow, bit + done);
  }
}

template <int kSources>
int64_t exec_compare_count(ExecContext& ctx, const Instr& instr) {
  CompareShape shape{Lanes(), kSources, kSources == 1 ? instr.args[3] : 0};
  shape.lanes.size[1] = itemsize(instr.operand(2).dtype);
  const int64_t count = instr.args[4];
  const int64_t at[2] = {0, 0};
  with_type_or_report(AllTypes{}, instr.operand(2).dtype, ctx, instr, [&](auto t) {
    const LaneLoop loop = compare_loop<decltype(t)>(instr.args[0]);
    if (loop == nullptr) return ctx.report_invalid(instr, "unknown compare mode");
    if (count > 0) compare_run(ctx, instr, loop, shape, 0, at, count);
  });
  return 0;
}

void bit_access(const Operand& operand, int64_t bits, bool write, AccessList& out) {
  push_access(out, operand, write, kBlockBytes, 0, (bits + 7) / 8);
}

void dense_access(const Operand& operand, int64_t count, bool write, AccessList& out) {
  push_access(out, operand, write, kBlockBytes, 0, count * size_of(operand));
}

template <int kSources>
void compare_count_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t count = instr.args[4];
  if (count <= 0) return;
  for (int i = 0; i < kSources; ++i) dense_access(instr.operand(2 + i), count, false, out);
  bit_access(instr.operand(1), count, true, out);
}

/*! \brief The lanes of the sources of compare_mask: strides of the two sources only, packed result bits. */
Lanes compare_lanes(const Instr& instr) {
  Lanes l;
  l.operands = 2;
  l.masked = true;
  const int64_t* a = instr.args + 4;
  l.mask_hi = static_cast<uint64_t>(a[0]);
  l.mask_lo = static_cast<uint64_t>(a[1]);
  l.repeat = std::max<int64_t>(a[2], 0);
  for (int i = 0; i < 2; ++i) {
    l.size[i] = std::max(1, itemsize(instr.operand(2 + i).dtype));
    l.blk[i] = a[3 + i] * kBlockBytes;
    l.rep[i] = a[5 + i] * kBlockBytes;
  }
  l.per_repeat = std::min(kRepeatBytes / l.size[0], 128);
  return l;
}

/*! \brief Result bits of one repeat: one per element of 256 bytes, even where the mask cannot name them all (b8). */
int64_t bits_per_repeat(const Lanes& l) { return kRepeatBytes / l.size[0]; }

int64_t exec_compare_mask(ExecContext& ctx, const Instr& instr) {
  const Lanes l = compare_lanes(instr);
  CompareShape shape{l, 2, 0};
  with_type_or_report(AllTypes{}, instr.operand(2).dtype, ctx, instr, [&](auto t) {
    const LaneLoop loop = compare_loop<decltype(t)>(instr.args[0]);
    if (loop == nullptr) return ctx.report_invalid(instr, "unknown compare mode");
    const int per_block = kBlockBytes / l.size[0];
    for (int64_t r = 0; r < l.repeat; ++r) {
      for (int lane = 0; lane < l.per_repeat; ++lane) {
        if (!l.lane_on(lane)) continue;
        int64_t at[2];
        for (int i = 0; i < 2; ++i) {
          at[i] = r * l.rep[i] + (lane / per_block) * l.blk[i] + (lane % per_block) * l.size[i];
        }
        int n = 1;
        while ((lane + n) % per_block != 0 && l.lane_on(lane + n)) ++n;
        compare_run(ctx, instr, loop, shape, r * bits_per_repeat(l) + lane, at, n);
        lane += n - 1;
      }
    }
  });
  return 0;
}

void compare_mask_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Lanes l = compare_lanes(instr);
  for (int i = 0; i < 2; ++i) append_lane_accesses(instr.operand(2 + i), l, i, false, out);
  const Operand d = instr.operand(1);
  for (int64_t lane = 0; lane < l.per_repeat && l.repeat > 0; lane += 8) {
    const uint64_t word = lane < 64 ? l.mask_lo >> lane : l.mask_hi >> (lane - 64);
    if ((word & 0xff) == 0) continue;
    const int align = lane == 0 ? kBlockBytes : 1;
    push_access(out, d, true, align, lane / 8, 1, l.repeat, bits_per_repeat(l) / 8);
    // Bits of masked-off lanes in the same byte keep their value: the byte is read as well.
    if ((word & 0xff) != 0xff) push_access(out, d, false, align, lane / 8, 1, l.repeat, bits_per_repeat(l) / 8);
  }
}

// ---- select ---------------------------------------------------------------------------------------------------------

template <class U>
void select_lanes(U* d, const uint8_t* mask, const U* s0, const U* s1, U scalar, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const U other = s1 ? s1[i] : scalar;
    d[i] = (mask[i / 8] >> (i % 8)) & 1 ? s0[i] : other;
  }
}

/*! \brief Lanes whose mask bit is undefined are undefined. */
template <class U>
void spread_undefined_bits(U* shadow, const uint8_t* mask_shadow, int64_t n) {
  if (!any_undefined(mask_shadow, (n + 7) / 8)) return;
  for (int64_t i = 0; i < n; ++i) {
    if ((mask_shadow[i / 8] >> (i % 8)) & 1) shadow[i] = static_cast<U>(~U(0));
  }
}

template <bool kScalar>
int64_t exec_select(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(1), mask = instr.operand(2), s0 = instr.operand(3);
  const Operand s1 = instr.operand(kScalar ? 3 : 4);
  const int64_t count = instr.args[5];
  if (count <= 0) return 0;
  with_type_or_report(AllTypes{}, d.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    using U = typename UIntOf<sizeof(T)>::type;
    U scalar = 0;
    if constexpr (kScalar) scalar = bit_cast<U>(store<T>(decode_scalar<T>(instr.args[4])));
    const U* other = kScalar ? nullptr : ctx.as<const U>(s1);
    select_lanes<U>(ctx.as<U>(d), ctx.data(mask), ctx.as<const U>(s0), other, scalar, count);
    if (ctx.shadow(d) == nullptr) return;
    const U* other_shadow = kScalar ? nullptr : reinterpret_cast<const U*>(ctx.shadow(s1));
    U* shadow = reinterpret_cast<U*>(ctx.shadow(d));
    select_lanes<U>(shadow, ctx.data(mask), reinterpret_cast<const U*>(ctx.shadow(s0)), other_shadow, U(0), count);
    spread_undefined_bits<U>(shadow, ctx.shadow(mask), count);
  });
  return 0;
}

template <bool kScalar>
void select_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t count = instr.args[5];
  if (count <= 0) return;
  bit_access(instr.operand(2), count, false, out);
  dense_access(instr.operand(3), count, false, out);
  if (!kScalar) dense_access(instr.operand(4), count, false, out);
  dense_access(instr.operand(1), count, true, out);
}

// ---- price: lanes of the sources ------------------------------------------------------------------------------------

template <int kSource, int kCount>
Cost count_cost(const Instr& instr, const ChipParams& chip) {
  const double lanes = static_cast<double>(std::max<int64_t>(instr.args[kCount], 0));
  return lanes_cost(instr, chip, itemsize(instr.operand(kSource).dtype), lanes);
}

Cost compare_mask_cost(const Instr& instr, const ChipParams& chip) {
  const Lanes l = compare_lanes(instr);
  return lanes_cost(instr, chip, l.size[0], static_cast<double>(l.repeat * l.per_repeat));
}

constexpr ImplRow kRows[] = {
    {OP_compare, {exec_compare_count<2>, compare_count_accesses<2>, count_cost<2, 4>, nullptr}},
    {OP_compare_mask, {exec_compare_mask, compare_mask_accesses, compare_mask_cost, nullptr}},
    {OP_compare_scalar, {exec_compare_count<1>, compare_count_accesses<1>, count_cost<2, 4>, nullptr}},
    {OP_select, {exec_select<false>, select_accesses<false>, count_cost<1, 5>, nullptr}},
    {OP_select_scalar, {exec_select<true>, select_accesses<true>, count_cost<1, 5>, nullptr}},
};

}  // namespace

ImplRows vector_compare_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
