/*!
 * \file vector_sort.cc
 * \brief sort32, mrg_sort on 8-byte pairs (score, index), and gather_mask.
 *
 * A pair is the score (f32, or f16 and two zero bytes) followed by a uint32 index. Order is descending and stable; NaN
 * sorts after every number.
 */
#include "access.h"
#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"

namespace tla {
namespace isa {
namespace {

constexpr int kPairBytes = 8, kGroup = 32, kQueues = 4;

bool before(float a, float b) { return a > b || (a == a && b != b); }

float score_at(const uint8_t* p, bool half) {
  if (half) {
    Half h;
    std::memcpy(&h, p, sizeof(h));
    return to_float(h);
  }
  float f;
  std::memcpy(&f, p, sizeof(f));
  return f;
}

/*! \brief Undefined scores decide an order: report the first, then treat all as defined. */
void check_scores(ExecContext& ctx, const Instr& instr, const Operand& s, int64_t at, int64_t n, int step, int bytes) {
  uint8_t* shadow = ctx.shadow(s);
  if (shadow == nullptr) return;
  bool reported = false;
  for (int64_t i = 0; i < n; ++i) {
    uint8_t* p = shadow + at + i * step;
    if (!any_undefined(p, bytes)) continue;
    if (!reported) ctx.report_undefined(instr, s.space, s.offset + at + i * step, bytes, "score of a sort");
    reported = true;
    std::memset(p, 0, static_cast<size_t>(bytes));
  }
}

// ---- sort32: d, s0, s1, repeat --------------------------------------------------------------------------------------

int64_t exec_sort32(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(0), s = instr.operand(1), index = instr.operand(2);
  const int size = size_of(s);
  check_scores(ctx, instr, s, 0, instr.args[3] * kGroup, size, size);
  for (int64_t r = 0; r < instr.args[3]; ++r) {
    const uint8_t* scores = ctx.data(s) + r * kGroup * size;
    int order[kGroup];
    for (int i = 0; i < kGroup; ++i) order[i] = i;
    std::stable_sort(order, order + kGroup, [&](int a, int b) {
      return before(score_at(scores + a * size, size == 2), score_at(scores + b * size, size == 2));
    });
    auto write = [&](uint8_t* to, const uint8_t* from, const uint8_t* indices) {
      uint8_t pairs[kGroup][kPairBytes] = {};
      for (int i = 0; i < kGroup; ++i) {
        std::memcpy(pairs[i], from + order[i] * size, static_cast<size_t>(size));
        std::memcpy(pairs[i] + 4, indices + order[i] * 4, 4);
      }
      std::memcpy(to, pairs, sizeof(pairs));
    };
    if (uint8_t* shadow = ctx.shadow(d)) {
      write(shadow + r * kGroup * kPairBytes, ctx.shadow(s) + r * kGroup * size, ctx.shadow(index) + r * kGroup * 4);
    }
    write(ctx.data(d) + r * kGroup * kPairBytes, scores, ctx.data(index) + r * kGroup * 4);
  }
  return 0;
}

void sort32_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  const int64_t n = instr.args[3] * kGroup;
  push_access(out, s, false, kBlockBytes, 0, n * size_of(s));
  push_access(out, instr.operand(2), false, kBlockBytes, 0, n * 4);
  push_access(out, d, true, kBlockBytes, 0, n * kPairBytes);
}

Cost sort32_cost(const Instr& instr, const ChipParams& chip) {
  return lanes_cost(instr, chip, size_of(instr.operand(1)), static_cast<double>(instr.args[3] * kGroup));
}

// ---- mrg_sort: d, s0..s3, len0..len3, valid_bit, repeat -------------------------------------------------------------

struct Merge {
  int64_t length[kQueues], total, repeat;
  bool half;
};

Merge decode_merge(const Instr& instr) {
  Merge m{{}, 0, std::max<int64_t>(instr.args[10], 0), instr.operand(0).dtype == kFloat16};
  for (int q = 0; q < kQueues; ++q) {
    m.length[q] = (instr.args[9] >> q & 1) != 0 ? std::max<int64_t>(instr.args[5 + q], 0) : 0;
    m.total += m.length[q];
  }
  return m;
}

/*! \brief Where queue q of repeat r starts: repeats follow each other at the total length. */
int64_t queue_start(const Merge& m, int64_t r) { return r * m.total * kPairBytes; }

int64_t exec_merge(ExecContext& ctx, const Instr& instr) {
  const Merge m = decode_merge(instr);
  const Operand d = instr.operand(0);
  for (int64_t r = 0; r < m.repeat; ++r) {
    for (int q = 0; q < kQueues; ++q) {
      check_scores(ctx, instr, instr.operand(1 + q), queue_start(m, r), m.length[q], kPairBytes, m.half ? 2 : 4);
    }
    int64_t next[kQueues] = {};
    for (int64_t out = 0; out < m.total; ++out) {
      int best = -1;
      float best_score = 0;
      for (int q = 0; q < kQueues; ++q) {
        if (next[q] >= m.length[q]) continue;
        const float score = score_at(ctx.data(instr.operand(1 + q)) + queue_start(m, r) + next[q] * kPairBytes, m.half);
        if (best >= 0 && !before(score, best_score)) continue;
        best = q;
        best_score = score;
      }
      const int64_t from = queue_start(m, r) + next[best]++ * kPairBytes, to = queue_start(m, r) + out * kPairBytes;
      std::memcpy(ctx.data(d) + to, ctx.data(instr.operand(1 + best)) + from, kPairBytes);
      if (uint8_t* shadow = ctx.shadow(d)) {
        std::memcpy(shadow + to, ctx.shadow(instr.operand(1 + best)) + from, kPairBytes);
      }
    }
  }
  return 0;
}

void merge_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Merge m = decode_merge(instr);
  for (int q = 0; q < kQueues; ++q) {
    push_access(out, instr.operand(1 + q), false, 8, 0, m.length[q] * kPairBytes, m.repeat, m.total * kPairBytes);
  }
  push_access(out, instr.operand(0), true, kBlockBytes, 0, m.total * kPairBytes * m.repeat);
}

Cost merge_cost(const Instr& instr, const ChipParams& chip) {
  const Merge m = decode_merge(instr);
  return lanes_cost(instr, chip, size_of(instr.operand(0)), static_cast<double>(m.total * m.repeat));
}

// ---- gather_mask: d, s, pattern, mask, repeat, s_blk, s_rep ---------------------------------------------------------

bool keeps(int64_t pattern, int64_t lane) {
  switch (pattern) {
    case 1:
      return lane % 2 == 0;
    case 2:
      return lane % 2 == 1;
    case 3:
    case 4:
    case 5:
    case 6:
      return lane % 4 == pattern - 3;
    default:
      return pattern == 7;
  }
}

/*! \brief Call `fn(source offset, destination offset)` for every lane kept. */
template <class Fn>
void for_each_kept(const Instr& instr, Fn&& fn) {
  const int64_t* a = instr.args;
  const int size = size_of(instr.operand(1)), per_block = kBlockBytes / size;
  int64_t out = 0;
  for (int64_t r = 0; r < a[4]; ++r) {
    for (int64_t lane = 0; lane < a[3]; ++lane) {
      if (!keeps(a[2], lane)) continue;
      fn(r * a[6] * kBlockBytes + (lane / per_block) * a[5] * kBlockBytes + (lane % per_block) * size, out * size);
      ++out;
    }
  }
}

int64_t exec_gather_mask(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  const size_t size = static_cast<size_t>(size_of(s));
  for_each_kept(instr, [&](int64_t from, int64_t to) {
    std::memcpy(ctx.data(d) + to, ctx.data(s) + from, size);
    if (uint8_t* shadow = ctx.shadow(d)) std::memcpy(shadow + to, ctx.shadow(s) + from, size);
  });
  return 0;
}

/*! \brief Whole blocks are read, whatever the pattern keeps of them. */
void gather_mask_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t* a = instr.args;
  const Operand d = instr.operand(0), s = instr.operand(1);
  const int size = size_of(s);
  const int64_t per_block = kBlockBytes / size, full = a[3] / per_block, tail = a[3] % per_block;
  push_access(out, s, false, kBlockBytes, 0, kBlockBytes, full, a[5] * kBlockBytes, a[4], a[6] * kBlockBytes);
  push_access(out, s, false, kBlockBytes, full * a[5] * kBlockBytes, tail * size, a[4], a[6] * kBlockBytes);
  int64_t kept = 0;
  for (int64_t lane = 0; lane < a[3]; ++lane) kept += keeps(a[2], lane);
  push_access(out, d, true, kBlockBytes, 0, kept * a[4] * size);
}

Cost gather_mask_cost(const Instr& instr, const ChipParams& chip) {
  return lanes_cost(instr, chip, size_of(instr.operand(1)), static_cast<double>(instr.args[3] * instr.args[4]));
}

constexpr ImplRow kRows[] = {
    {OP_sort32, {exec_sort32, sort32_accesses, sort32_cost, nullptr}},
    {OP_mrg_sort, {exec_merge, merge_accesses, merge_cost, nullptr}},
    {OP_gather_mask, {exec_gather_mask, gather_mask_accesses, gather_mask_cost, nullptr}},
};

}  // namespace

ImplRows vector_sort_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
