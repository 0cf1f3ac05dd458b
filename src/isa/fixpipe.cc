/*!
 * \file fixpipe.cc
 * \brief L0C -> GM and UB (row-major) and L0C -> L1 (NZ), with ReLU and conversion to half or bfloat16 (pipe FIX).
 *
 * Element (row, column) of L0C lies at `((column / 16) * src_stride + row) * 64 + (column % 16) * 4` bytes.
 */
#include <vector>

#include "access.h"
#include "atomic.h"
#include "cost.h"
#include "cube.h"
#include "dispatch.h"
#include "impls.h"
#include "simd.h"

namespace tla {
namespace isa {
namespace {

enum Quant : int64_t { kNoQuant = 0, kToHalf, kToBFloat16 };

constexpr int64_t kRowBytes = kFractalSide * 4;

/*! \brief quant, d, s, n_size, m_size, src_stride, dst_stride, relu_en. */
struct Fixpipe {
  int64_t quant;
  Operand d, s;
  int64_t n, m, s_stride, d_stride;
  bool relu;
  int d_size;

  int64_t groups() const { return fractals_of(n, kFractalSide); }
};

Fixpipe decode(const Instr& instr) {
  const int64_t* a = instr.args;
  Fixpipe p{a[0], instr.operand(1), instr.operand(2), a[3], a[4], a[5], a[6], a[7] != 0, 0};
  p.d_size = size_of(p.d);
  if (p.n <= 0 || p.m <= 0) p.n = p.m = 0;
  return p;
}

bool supported(const Fixpipe& p) {
  if (p.quant == kNoQuant) return p.d.dtype == p.s.dtype && (p.s.dtype == kFloat32 || p.s.dtype == kInt32);
  return p.s.dtype == kFloat32 && p.d.dtype == (p.quant == kToHalf ? kFloat16 : kBFloat16) && p.quant <= kToBFloat16;
}

template <class T>
TLA_INLINE T relu_of(T v) {
  const T positive = v > 0 ? v : T(0);
  return v != v ? v : positive;
}

/*! \brief n source elements (float or int32) -> destination elements. */
template <class D, class S>
struct ConvertRow {
  static TLA_INLINE void run(uint8_t* to, const uint8_t* from, int64_t n, bool relu) {
    D* d = reinterpret_cast<D*>(to);
    const S* s = reinterpret_cast<const S*>(from);
    if (relu) {
      for (int64_t i = 0; i < n; ++i) d[i] = store<D>(relu_of(s[i]));
    } else {
      for (int64_t i = 0; i < n; ++i) d[i] = store<D>(s[i]);
    }
  }
};

void convert_row(const Fixpipe& p, uint8_t* to, const uint8_t* from) {
  if (p.quant == kToHalf) return simd_run<ConvertRow<Half, float>>(to, from, p.n, p.relu);
  if (p.quant == kToBFloat16) return simd_run<ConvertRow<BFloat16, float>>(to, from, p.n, p.relu);
  if (p.s.dtype == kInt32) return simd_run<ConvertRow<int32_t, int32_t>>(to, from, p.n, p.relu);
  simd_run<ConvertRow<float, float>>(to, from, p.n, p.relu);
}

/*! \brief One row of the matrix with its columns side by side. */
void gather_row(const Fixpipe& p, const uint8_t* base, int64_t row, uint8_t* to) {
  for (int64_t g = 0; g < p.groups(); ++g) {
    const int64_t columns = std::min<int64_t>(kFractalSide, p.n - g * kFractalSide);
    std::memcpy(to + g * kRowBytes, base + (g * p.s_stride + row) * kRowBytes, static_cast<size_t>(columns * 4));
  }
}

/*! \brief Shadow of a converted row: an element is undefined when any of its source bytes is. */
void convert_shadow(const Fixpipe& p, uint8_t* to, const uint8_t* from) {
  const uint8_t* sources[1] = {from};
  const int size[1] = {4};
  propagate_undefined(to, p.d_size, sources, size, 1, p.n);
}

/*! \brief One converted row; the shadows are null when nothing is tracked. `source_shadow` has 4 bytes per element. */
struct Row {
  int64_t index;
  const uint8_t* data;
  uint8_t* shadow;
  const uint8_t* source_shadow;
};

/*! \brief Call `fn(Row)` for every row. */
template <class Fn>
void for_each_row(ExecContext& ctx, const Fixpipe& p, Fn&& fn) {
  const size_t width = static_cast<size_t>(p.groups() * kRowBytes);
  std::vector<uint8_t> source(width), data(width), shadow(width);
  const uint8_t* tracked = ctx.shadow(p.s);
  for (int64_t r = 0; r < p.m; ++r) {
    gather_row(p, ctx.data(p.s), r, source.data());
    convert_row(p, data.data(), source.data());
    if (tracked == nullptr) {
      fn(Row{r, data.data(), nullptr, nullptr});
      continue;
    }
    gather_row(p, tracked, r, source.data());
    convert_shadow(p, shadow.data(), source.data());
    fn(Row{r, data.data(), shadow.data(), source.data()});
  }
}

/*! \brief Undefined elements of a row reach a user tensor: report the first, then treat the row as defined. */
void check_row(ExecContext& ctx, const Instr& instr, const Fixpipe& p, const Row& row) {
  if (!any_undefined(row.source_shadow, p.n * 4)) return;
  int64_t first = 0;
  while (row.source_shadow[first] == 0) ++first;
  const int64_t at = (first / kRowBytes * p.s_stride + row.index) * kRowBytes + first % kRowBytes;
  ctx.report_undefined(instr, p.s.space, p.s.offset + at, 4, "a tensor in GM");
  uint8_t* shadow = ctx.shadow(p.s);
  for (int64_t g = 0; g < p.groups(); ++g) {
    const int64_t columns = std::min<int64_t>(kFractalSide, p.n - g * kFractalSide);
    std::memset(shadow + (g * p.s_stride + row.index) * kRowBytes, 0, static_cast<size_t>(columns * 4));
  }
}

int64_t exec_to_gm(ExecContext& ctx, const Instr& instr) {
  const Fixpipe p = decode(instr);
  if (!supported(p)) {
    ctx.report_invalid(instr, "fixpipe does not convert between these dtypes");
    return 0;
  }
  GmWriter writer(ctx, instr, p.d);
  for_each_row(ctx, p, [&](const Row& row) {
    const bool user_tensor = row.shadow != nullptr && !writer.tracked();
    if (user_tensor) check_row(ctx, instr, p, row);
    writer.write(row.index * p.d_stride * p.d_size, row.data, user_tensor ? nullptr : row.shadow, p.n * p.d_size,
                 p.s.space, p.s.offset);
  });
  return 0;
}

/*! \brief Columns of one 32-byte group of the destination. */
int64_t group_columns(const Fixpipe& p) { return kBlockBytes / p.d_size; }

int64_t exec_to_l1(ExecContext& ctx, const Instr& instr) {
  const Fixpipe p = decode(instr);
  if (!supported(p)) {
    ctx.report_invalid(instr, "fixpipe does not convert between these dtypes");
    return 0;
  }
  const int64_t columns = group_columns(p);
  auto scatter = [&](uint8_t* to, const uint8_t* from, int64_t row) {
    for (int64_t c = 0; c < p.n; c += columns) {
      const int64_t bytes = std::min(columns, p.n - c) * p.d_size;
      std::memcpy(to + (c / columns * p.d_stride + row) * kBlockBytes, from + c * p.d_size, static_cast<size_t>(bytes));
    }
  };
  for_each_row(ctx, p, [&](const Row& row) {
    scatter(ctx.data(p.d), row.data, row.index);
    if (row.shadow != nullptr) scatter(ctx.shadow(p.d), row.shadow, row.index);
  });
  return 0;
}

enum Split : int64_t { kWhole = 0, kHalvesOfRows, kHalvesOfColumns };

/*! \brief A Fixpipe with dual, sub_block behind its other arguments. */
struct FixpipeToUb {
  Fixpipe p;
  int64_t split, sub_block;

  int64_t rows() const { return split == kHalvesOfRows ? p.m / 2 : p.m; }
  int64_t row_bytes() const { return (split == kHalvesOfColumns ? p.n / 2 : p.n) * p.d_size; }
  int64_t pitch() const { return p.d_stride * p.d_size; }
  int first() const { return split == kWhole ? static_cast<int>(sub_block) : 0; }
  int last() const { return split == kWhole ? static_cast<int>(sub_block) : 1; }
};

FixpipeToUb decode_to_ub(const Instr& instr) { return {decode(instr), instr.args[8], instr.args[9]}; }

int64_t exec_to_ub(ExecContext& ctx, const Instr& instr) {
  const FixpipeToUb f = decode_to_ub(instr);
  if (!supported(f.p)) {
    ctx.report_invalid(instr, "fixpipe does not convert between these dtypes");
    return 0;
  }
  for_each_row(ctx, f.p, [&](const Row& row) {
    for (int core = f.first(); core <= f.last(); ++core) {
      if (f.split == kHalvesOfRows && row.index / f.rows() != core) continue;
      const int64_t from = f.split == kHalvesOfColumns ? core * f.row_bytes() : 0;
      const int64_t to = f.p.d.offset + (f.split == kHalvesOfRows ? row.index % f.rows() : row.index) * f.pitch();
      Memory& ub = ctx.memory_of(static_cast<int8_t>(core))[UB];
      std::memcpy(ub.data + to, row.data + from, static_cast<size_t>(f.row_bytes()));
      if (row.shadow != nullptr) std::memcpy(ub.shadow + to, row.shadow + from, static_cast<size_t>(f.row_bytes()));
    }
  });
  return 0;
}

void source_accesses(const Fixpipe& p, AccessList& out) {
  const int64_t full = p.n / kFractalSide, tail = p.n % kFractalSide;
  push_access(out, p.s, false, kL0CAlign, 0, p.m * kRowBytes, full, p.s_stride * kRowBytes);
  push_access(out, p.s, false, kL0CAlign, full * p.s_stride * kRowBytes, tail * 4, p.m, kRowBytes);
}

void to_gm_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Fixpipe p = decode(instr);
  source_accesses(p, out);
  push_gm_write(out, instr, p.d, p.n * p.d_size, p.m, p.d_stride * p.d_size);
}

void to_l1_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Fixpipe p = decode(instr);
  const int64_t columns = group_columns(p), full = p.n / columns, tail = p.n % columns;
  source_accesses(p, out);
  push_access(out, p.d, true, kBlockBytes, 0, p.m * kBlockBytes, full, p.d_stride * kBlockBytes);
  push_access(out, p.d, true, kBlockBytes, full * p.d_stride * kBlockBytes, tail * p.d_size, p.m, kBlockBytes);
}

void to_ub_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const FixpipeToUb f = decode_to_ub(instr);
  source_accesses(f.p, out);
  for (int core = f.first(); core <= f.last(); ++core) {
    const size_t before = out.size();
    push_access(out, f.p.d, true, kBlockBytes, 0, f.row_bytes(), f.rows(), f.pitch());
    for (size_t i = before; i < out.size(); ++i) out[i].holder = static_cast<int8_t>(core);
  }
}

/*! \brief Both halves are written at the same time. */
Cost to_ub_cost(const Instr& instr, const ChipParams& chip) {
  const FixpipeToUb f = decode_to_ub(instr);
  return bytes_cost(instr, chip, static_cast<double>(f.row_bytes() * f.rows()));
}

Cost to_gm_cost(const Instr& instr, const ChipParams& chip) {
  return gm_cost(instr, chip, static_cast<double>(decode(instr).m));
}

Cost to_l1_cost(const Instr& instr, const ChipParams& chip) {
  const Fixpipe p = decode(instr);
  return bytes_cost(instr, chip, static_cast<double>(p.n * p.m * p.d_size));
}

constexpr ImplRow kRows[] = {
    {OP_fixpipe_to_gm, {exec_to_gm, to_gm_accesses, to_gm_cost, nullptr}},
    {OP_fixpipe_to_l1, {exec_to_l1, to_l1_accesses, to_l1_cost, nullptr}},
    {OP_fixpipe_to_ub, {exec_to_ub, to_ub_accesses, to_ub_cost, nullptr}},
};

}  // namespace

ImplRows fixpipe_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
