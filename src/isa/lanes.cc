/*!
 * \file lanes.cc
 * \brief Decoding, footprints and execution of lane-wise vector instructions.
 */
#include "lanes.h"

#include "simd.h"

namespace tla {
namespace isa {

int Lanes::prefix() const {
  int n = 0;
  while (n < per_repeat && lane_on(n)) ++n;
  for (int i = n; i < per_repeat; ++i) {
    if (lane_on(i)) return -1;
  }
  return n;
}

Lanes decode_lanes(const Instr& instr, const VectorForm& form) {
  Lanes l;
  l.operands = form.operands;
  l.masked = form.masked;
  int widest = 1;
  for (int i = 0; i < form.operands; ++i) {
    l.size[i] = std::max(1, itemsize(instr.operand(form.operand(i)).dtype));
    widest = std::max(widest, l.size[i]);
  }
  l.per_repeat = kRepeatBytes / widest;
  const int64_t* a = instr.args + form.rest();
  if (!form.masked) {
    l.count = std::max<int64_t>(a[0], 0);
    return l;
  }
  // One repeat has at most 128 lanes: 8-bit operands, too, are limited by the two mask words.
  l.per_repeat = std::min(l.per_repeat, 128);
  l.mask_hi = static_cast<uint64_t>(a[0]);
  l.mask_lo = static_cast<uint64_t>(a[1]);
  l.repeat = std::max<int64_t>(a[2], 0);
  for (int i = 0; i < form.operands; ++i) {
    l.blk[i] = a[3 + i] * kBlockBytes;
    l.rep[i] = a[3 + form.operands + i] * kBlockBytes;
  }
  return l;
}

namespace {

/*! \brief Access of lanes [first, last) of every repeat, contiguous in memory at `offset` from the head. */
Access lane_piece(const Operand& operand, const Lanes& l, int i, int64_t offset, int64_t bytes, bool write) {
  Access a;
  a.space = operand.space;
  a.tile = operand.tile;
  a.write = write;
  // A piece that starts inside a block can only show that the head is aligned as far as its own offset is.
  a.align = static_cast<int32_t>(offset % kBlockBytes == 0 ? kBlockBytes : (offset & -offset));
  a.base = operand.offset + offset;
  a.len = bytes;
  a.count = l.repeat;
  a.stride = l.rep[i];
  return a;
}

}  // namespace

void append_lane_accesses(const Operand& operand, const Lanes& l, int i, bool write, AccessList& out) {
  const int size = l.size[i];
  if (!l.masked) {
    if (l.count == 0) return;
    Access a;
    a.space = operand.space;
    a.tile = operand.tile;
    a.write = write;
    a.align = kBlockBytes;
    a.base = operand.offset;
    a.len = l.count * size;
    out.push_back(a);
    return;
  }
  if (l.repeat == 0) return;
  const int per_block = kBlockBytes / size;
  const bool dense = l.blk[i] == kBlockBytes;
  for (int lane = 0; lane < l.per_repeat;) {
    if (!l.lane_on(lane)) {
      ++lane;
      continue;
    }
    const int end = dense ? l.per_repeat : (lane / per_block + 1) * per_block;
    int stop = lane + 1;
    while (stop < end && l.lane_on(stop)) ++stop;
    const int64_t offset = (lane / per_block) * l.blk[i] + (lane % per_block) * size;
    out.push_back(lane_piece(operand, l, i, offset, static_cast<int64_t>(stop - lane) * size, write));
    lane = stop;
  }
}

void append_form_accesses(const Instr& instr, const VectorForm& form, AccessList& out) {
  const Lanes lanes = decode_lanes(instr, form);
  for (int i = 0; i < form.operands; ++i) {
    const Operand operand = instr.operand(form.operand(i));
    if (i > 0 || form.reads_destination) append_lane_accesses(operand, lanes, i, false, out);
    if (i == 0) append_lane_accesses(operand, lanes, i, true, out);
  }
}

namespace {

/*! \brief `any` = one of n bytes is not 0; n is a multiple of 64. */
struct AnyBit {
  static TLA_INLINE void run(const uint8_t* bytes, int64_t n, uint64_t* any) {
    uint64_t lanes[8] = {};
    for (int64_t i = 0; i < n; i += 64) {
      uint64_t words[8];
      std::memcpy(words, bytes + i, sizeof(words));
      for (int j = 0; j < 8; ++j) lanes[j] |= words[j];
    }
    for (int j = 1; j < 8; ++j) lanes[0] |= lanes[j];
    *any = lanes[0];
  }
};

}  // namespace

bool any_undefined(const uint8_t* shadow, int64_t n) {
  int64_t i = 0;
  if (n >= 128) {
    uint64_t any = 0;
    i = n / 64 * 64;
    simd_run<AnyBit>(shadow, i, &any);
    if (any != 0) return true;
  }
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, shadow + i, sizeof(word));
    if (word != 0) return true;
  }
  for (; i < n; ++i) {
    if (shadow[i] != 0) return true;
  }
  return false;
}

namespace {

/*! \brief Shadow of a result of two bytes: what depends on unwritten outputs alone stays unwritten. */
uint8_t worse(uint8_t a, uint8_t b) {
  if ((a | b) == 0) return 0;
  return (a == 0 || a == kUnwrittenByte) && (b == 0 || b == kUnwrittenByte) ? kUnwrittenByte : kUndefinedByte;
}

}  // namespace

void propagate_undefined(uint8_t* d, int d_size, const uint8_t* const* src, const int* src_size, int num_src,
                         int64_t n) {
  bool any = false;
  for (int s = 0; s < num_src; ++s) any = any || any_undefined(src[s], n * src_size[s]);
  if (!any) {
    std::memset(d, 0, static_cast<size_t>(n * d_size));
    return;
  }
  for (int64_t lane = 0; lane < n; ++lane) {
    uint8_t result = 0;
    for (int s = 0; s < num_src; ++s) {
      for (int i = 0; i < src_size[s]; ++i) result = worse(result, src[s][lane * src_size[s] + i]);
    }
    std::memset(d + lane * d_size, result, static_cast<size_t>(d_size));
  }
}

namespace {

/*! \brief Do [a, a+na) and [b, b+nb) share bytes without being the same lanes? */
bool overlaps_partly(const uint8_t* a, int64_t na, const uint8_t* b, int64_t nb) {
  if (a == b && na == nb) return false;
  return a < b + nb && b < a + na;
}

/*! \brief Pointers of one run: operand 0 is the destination. */
struct Run {
  uint8_t* data[kMaxOperands] = {};
  uint8_t* shadow[kMaxOperands] = {};
};

void run_shadow(const Run& run, const Lanes& l, bool reads_destination, int64_t n) {
  const uint8_t* src[kMaxOperands];
  int size[kMaxOperands];
  int num = 0;
  for (int i = reads_destination ? 0 : 1; i < l.operands; ++i, ++num) {
    src[num] = run.shadow[i];
    size[num] = l.size[i];
  }
  propagate_undefined(run.shadow[0], l.size[0], src, size, num, n);
}

/*! \brief Bitwise instructions: all operands are `bytes` long; a missing second source is the first once more. */
void run_bit_rule(const Run& run, int64_t bytes, BitRule rule) {
  const int second = run.data[2] != nullptr ? 2 : 1;
  const uint8_t *s0 = run.shadow[1], *s1 = run.shadow[second];
  if (!any_undefined(s0, bytes) && !any_undefined(s1, bytes)) {
    std::memset(run.shadow[0], 0, static_cast<size_t>(bytes));
    return;
  }
  const auto all_bits = [](uint8_t u) { return u == kUnwrittenByte ? kUndefinedByte : u; };
  for (int64_t i = 0; i < bytes; ++i) {
    const uint8_t u0 = s0[i], u1 = s1[i];
    const uint8_t u = rule(all_bits(u0), all_bits(u1), run.data[1][i], run.data[second][i]);
    const bool only_unwritten = (u0 == 0 || u0 == kUnwrittenByte) && (u1 == 0 || u1 == kUnwrittenByte);
    run.shadow[0][i] = u != 0 && only_unwritten ? kUnwrittenByte : u;
  }
}

/*! \brief An operand as its repeats see it: `bytes` from `head + r * rep` on in repeat r, fewer in the last one. */
struct RepeatRange {
  const uint8_t* head;
  int64_t bytes, last_bytes, rep;
};

/*! \brief Does a repeat write what the next one reads? The pipe reads ahead, so that the result is not defined then. */
bool feeds_next_repeat(const RepeatRange& d, const RepeatRange& s, int64_t repeats) {
  // Stride 0 on the same address is the documented way to accumulate over repeats.
  if (d.head == s.head && d.rep == s.rep) return false;
  const int64_t steps = repeats - 1;
  if (d.head + steps * d.rep + d.bytes <= s.head || s.head + steps * s.rep + s.bytes <= d.head) return false;
  for (int64_t r = 0; r + 1 < repeats; ++r) {
    const uint8_t* written = d.head + r * d.rep;
    const uint8_t* read = s.head + (r + 1) * s.rep;
    const int64_t length = r + 2 < repeats ? s.bytes : s.last_bytes;
    if (written < read + length && read < written + d.bytes) return true;
  }
  return false;
}

/*! \brief Extents of operand i where its lanes are contiguous within a repeat; no bytes where they are not. */
RepeatRange repeat_range(const Lanes& l, int i, const uint8_t* head) {
  if (!l.masked) {
    const int64_t bytes = static_cast<int64_t>(l.per_repeat) * l.size[i];
    const int64_t last = (l.count - 1) % l.per_repeat + 1;
    return {head, std::min(bytes, l.count * l.size[i]), last * l.size[i], bytes};
  }
  int last = l.per_repeat;
  while (last > 0 && !l.lane_on(last - 1)) --last;
  const int64_t bytes = l.blk[i] == kBlockBytes ? static_cast<int64_t>(last) * l.size[i] : 0;
  return {head, bytes, bytes, l.rep[i]};
}

/*! \brief Report sources that overlap the destination of an earlier repeat. */
bool check_overlap(ExecContext& ctx, const Instr& instr, const Lanes& l, const Run& head) {
  const RepeatRange d = repeat_range(l, 0, head.data[0]);
  for (int i = 1; i < l.operands; ++i) {
    const RepeatRange s = repeat_range(l, i, head.data[i]);
    if (d.bytes == 0 || s.bytes == 0 || !feeds_next_repeat(d, s, l.repeats())) continue;
    ctx.report_invalid(instr, "a repeat reads what the repeat before it has just written");
    return false;
  }
  return true;
}

/*!
 * \brief A run whose sources overlap the destination elsewhere than lane by lane: repeat by repeat, every repeat reads
 * all its lanes before it writes.
 */
void run_overlapping(const Run& run, const Lanes& l, LaneLoop loop, int64_t scalar, int64_t n) {
  uint8_t copy[kMaxOperands][kRepeatBytes];
  for (int64_t done = 0; done < n; done += l.per_repeat) {
    const int64_t lanes = std::min<int64_t>(l.per_repeat, n - done);
    for (int i = 1; i < l.operands; ++i) {
      std::memcpy(copy[i], run.data[i] + done * l.size[i], static_cast<size_t>(lanes * l.size[i]));
    }
    loop(run.data[0] + done * l.size[0], copy[1], copy[2], scalar, lanes);
  }
}

}  // namespace

void run_lanes(ExecContext& ctx, const Instr& instr, const VectorForm& form, LaneLoop loop, int64_t scalar,
               BitRule rule) {
  const Lanes l = decode_lanes(instr, form);
  Run head;
  for (int i = 0; i < form.operands; ++i) {
    const Operand operand = instr.operand(form.operand(i));
    head.data[i] = ctx.data(operand);
    head.shadow[i] = ctx.shadow(operand);
  }
  if (!check_overlap(ctx, instr, l, head)) return;
  const bool track = head.shadow[0] != nullptr;
  for_each_run(l, [&](const int64_t* at, int64_t n) {
    Run run;
    bool partly = false;
    for (int i = 0; i < form.operands; ++i) {
      run.data[i] = head.data[i] + at[i];
      run.shadow[i] = track ? head.shadow[i] + at[i] : nullptr;
      partly = partly || (i > 0 && overlaps_partly(run.data[0], n * l.size[0], run.data[i], n * l.size[i]));
    }
    if (track && rule != nullptr) {
      run_bit_rule(run, n * l.size[0], rule);
    } else if (track) {
      run_shadow(run, l, form.reads_destination, n);
    }
    if (partly) {
      run_overlapping(run, l, loop, scalar, n);
    } else {
      loop(run.data[0], run.data[1], run.data[2], scalar, n);
    }
  });
}

}  // namespace isa
}  // namespace tla
