/*!
 * \file mmad.cc
 * \brief mmad: d[m, n] = (init ? 0 : d) + a[m, k] * b[k, n] (pipe M).
 *
 * Order of sums: for every element k ascending, starting with d; products are exact and every sum is rounded once to
 * float32. For 16- and 8-bit floats an exact product fits a float; for float32 both happen in double. int8 is exact in
 * int32 (wrapping). The result does not depend on the host.
 *
 * The manuals do not say what happens to the padding of the last fractals, so the stricter readings are taken:
 *   - k is rounded up to whole fractals: the padding lanes of K are multiplied, garbage there spoils the result;
 *   - the rows and columns beyond m and n that share a fractal with results are overwritten with undefined values.
 */
#include "access.h"
#include "cost.h"
#include "cube.h"
#include "dispatch.h"
#include "impls.h"
#include "mmad_kernel.h"

namespace tla {
namespace isa {
namespace {

struct Mmad {
  Operand d, a, b;
  int64_t m, n, k;     //!< as given
  int64_t mf, nf, kf;  //!< in fractals
  int64_t c0;          //!< elements of a and b along K per fractal
  bool init, nz_a;

  int64_t depth() const { return kf * c0; }
  int64_t a_fractal(int64_t row, int64_t step) const { return nz_a ? step * mf + row : row * kf + step; }
  int64_t b_fractal(int64_t column, int64_t step) const { return step * nf + column; }
};

Mmad decode(const Instr& instr, const ChipParams& chip) {
  const int64_t* v = instr.args;
  Mmad p{instr.operand(0), instr.operand(1), instr.operand(2), v[3], v[4], v[5], 0, 0, 0, 0, v[8] != 0, false};
  p.c0 = kBlockBytes / size_of(p.a);
  p.mf = fractals_of(p.m, kFractalSide);
  p.nf = fractals_of(p.n, kFractalSide);
  p.kf = fractals_of(p.k, p.c0);
  p.nz_a = l0a_is_nz(chip);
  return p;
}

bool does_nothing(const Mmad& p) { return p.m <= 0 || p.n <= 0 || p.k <= 0; }

// ---- undefined values -----------------------------------------------------------------------------------------------

/*! \brief Report the first undefined byte of an input's rows [0, lines) in all fractals, then treat them as defined. */
template <class FractalOf>
void check_input(ExecContext& ctx, const Instr& instr, const Operand& o, int64_t lines, int64_t steps,
                 FractalOf fractal_of, const char* where) {
  uint8_t* shadow = ctx.shadow(o);
  if (shadow == nullptr || !any_undefined(shadow, steps * fractals_of(lines, kFractalSide) * kFractalBytes)) return;
  bool reported = false;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t line = 0; line < lines; line += kFractalSide) {
      const int64_t at = fractal_of(line / kFractalSide, step) * kFractalBytes;
      const int64_t bytes = std::min<int64_t>(kFractalSide, lines - line) * kBlockBytes;
      if (!any_undefined(shadow + at, bytes)) continue;
      if (!reported) {
        int64_t first = at;
        while (shadow[first] == 0) ++first;
        ctx.report_undefined(instr, o.space, o.offset + first, at + bytes - first, where);
      }
      reported = true;
      std::memset(shadow + at, 0, static_cast<size_t>(bytes));
    }
  }
}

/*! \brief Check the accumulator inside m x n, and set the shadow of the result: defined inside, undefined around. */
void update_accumulator_shadow(ExecContext& ctx, const Instr& instr, const Mmad& p) {
  uint8_t* shadow = ctx.shadow(p.d);
  if (shadow == nullptr) return;
  constexpr int64_t kRow = kFractalSide * 4;
  const int64_t bytes = p.nf * p.mf * kFractalSide * kRow;
  const bool whole = p.m == p.mf * kFractalSide && p.n == p.nf * kFractalSide;
  if (whole && (p.init || !any_undefined(shadow, bytes))) {
    std::memset(shadow, 0, static_cast<size_t>(bytes));
    return;
  }
  bool reported = p.init;
  for (int64_t j = 0; j < p.nf; ++j) {
    const int64_t columns = std::min<int64_t>(kFractalSide, p.n - j * kFractalSide);
    for (int64_t r = 0; r < p.mf * kFractalSide; ++r) {
      uint8_t* row = shadow + (j * p.mf * kFractalSide + r) * kRow;
      const int64_t inside = r < p.m ? columns * 4 : 0;
      if (!reported && any_undefined(row, inside)) {
        ctx.report_undefined(instr, p.d.space, p.d.offset + (row - shadow), inside, "the accumulator of a mmad");
        reported = true;
      }
      std::memset(row, 0, static_cast<size_t>(inside));
      std::memset(row + inside, kUndefinedByte, static_cast<size_t>(kRow - inside));
    }
  }
}

// ---- values ---------------------------------------------------------------------------------------------------------

/*! \brief Buffers that live as long as the core. */
struct Scratch {
  std::vector<float> a, b;
  std::vector<uint32_t> kept;
};

Scratch& scratch_of(ExecContext& ctx) {
  if (!ctx.isa_state) ctx.isa_state = std::make_shared<Scratch>();
  return *static_cast<Scratch*>(ctx.isa_state.get());
}

/*! \brief Unpack A to rows [mf * 16][depth] and B to panels [nf][depth][16]; int8 becomes int32 in the same bytes. */
template <class TA, class TB, class C>
void unpack(ExecContext& ctx, const Mmad& p, Scratch& s) {
  s.a.resize(static_cast<size_t>(p.mf * kFractalSide * p.depth()));
  s.b.resize(static_cast<size_t>(p.nf * kFractalSide * p.depth()));
  C* rows = reinterpret_cast<C*>(s.a.data());
  C* panels = reinterpret_cast<C*>(s.b.data());
  for (int64_t step = 0; step < p.kf; ++step) {
    for (int64_t i = 0; i < p.mf; ++i) {
      const TA* fractal = ctx.as<const TA>(p.a) + p.a_fractal(i, step) * kFractalSide * p.c0;
      simd_run<UnpackRows<TA, C>>(rows + i * kFractalSide * p.depth() + step * p.c0, p.depth(), fractal);
    }
    for (int64_t j = 0; j < p.nf; ++j) {
      const TB* fractal = ctx.as<const TB>(p.b) + p.b_fractal(j, step) * kFractalSide * p.c0;
      simd_run<UnpackColumns<TB, C>>(panels + (j * p.depth() + step * p.c0) * kFractalSide, fractal);
    }
  }
}

/*! \brief Multiply unpacked operands into the m rows x nf panels of L0C. Columns beyond n are computed and dropped. */
template <class Kernel, class C>
void multiply(ExecContext& ctx, const Mmad& p, Scratch& s) {
  C* out = ctx.as<C>(p.d);
  const C* rows = reinterpret_cast<const C*>(s.a.data());
  const C* panels = reinterpret_cast<const C*>(s.b.data());
  const int64_t columns = p.n % kFractalSide;
  uint32_t* last = ctx.as<uint32_t>(p.d) + (p.nf - 1) * p.mf * kFractalSide * kFractalSide;
  if (columns != 0) s.kept.assign(last, last + p.m * kFractalSide);
  for (int64_t j = 0; j < p.nf; ++j) {
    simd_run<Kernel>(out + j * p.mf * kFractalSide * kFractalSide, rows, panels + j * p.depth() * kFractalSide, p.m,
                     p.depth(), p.init);
  }
  for (int64_t r = 0; columns != 0 && r < p.m; ++r) {
    for (int64_t i = r * kFractalSide + columns; i < (r + 1) * kFractalSide; ++i) {
      last[i] = s.kept[static_cast<size_t>(i)];
    }
  }
}

using FloatInputs = Types<Half, BFloat16, Float8E4M3, Float8E5M2>;

int64_t exec_mmad(ExecContext& ctx, const Instr& instr) {
  const Mmad p = decode(instr, ctx.chip);
  if (does_nothing(p)) return 0;
  if (instr.args[7] != 0) {
    ctx.report_invalid(instr, "cmatrix_source = 1 (bias table) needs the form with a bias operand");
    return 0;
  }
  if (p.m == 1) {
    ctx.report_invalid(instr, "m = 1 is the vector mode, which reads A in another layout");
    return 0;
  }
  const auto a_fractal = [&p](int64_t i, int64_t step) { return p.a_fractal(i, step); };
  const auto b_fractal = [&p](int64_t j, int64_t step) { return p.b_fractal(j, step); };
  check_input(ctx, instr, p.a, p.m, p.kf, a_fractal, "the left operand of a mmad");
  check_input(ctx, instr, p.b, p.n, p.kf, b_fractal, "the right operand of a mmad");
  update_accumulator_shadow(ctx, instr, p);
  Scratch& s = scratch_of(ctx);
  if (p.a.dtype == kInt8 && p.b.dtype == kInt8 && p.d.dtype == kInt32) {
    unpack<int8_t, int8_t, uint32_t>(ctx, p, s);
    multiply<IntKernel, uint32_t>(ctx, p, s);
  } else if (p.a.dtype == kFloat32 && p.b.dtype == kFloat32 && p.d.dtype == kFloat32) {
    unpack<float, float, float>(ctx, p, s);
    multiply<DoubleKernel, float>(ctx, p, s);
  } else if (p.d.dtype == kFloat32 && size_of(p.a) == size_of(p.b)) {
    with_type_or_report(FloatInputs{}, p.a.dtype, ctx, instr, [&](auto a) {
      with_type_or_report(FloatInputs{}, p.b.dtype, ctx, instr, [&](auto b) {
        unpack<decltype(a), decltype(b), float>(ctx, p, s);
        multiply<FloatKernel, float>(ctx, p, s);
      });
    });
  } else {
    ctx.report_invalid(instr, "mmad does not exist for these dtypes");
  }
  return 0;
}

void mmad_accesses(const ExecContext*, const Instr& instr, const ChipParams& chip, AccessList& out) {
  const Mmad p = decode(instr, chip);
  if (does_nothing(p)) return;
  constexpr int64_t kResultBytes = kFractalSide * kFractalSide * 4;
  push_access(out, p.a, false, kFractalBytes, 0, p.mf * p.kf * kFractalBytes);
  push_access(out, p.b, false, kFractalBytes, 0, p.nf * p.kf * kFractalBytes);
  if (!p.init) push_access(out, p.d, false, kL0CAlign, 0, p.mf * p.nf * kResultBytes);
  push_access(out, p.d, true, kL0CAlign, 0, p.mf * p.nf * kResultBytes);
}

Cost mmad_cost(const Instr& instr, const ChipParams& chip) {
  const Mmad p = decode(instr, chip);
  if (does_nothing(p)) return fixed_cost(instr, chip);
  Cost c = fractals_cost(instr, chip, p.a.dtype, static_cast<double>(p.mf * p.nf * p.kf));
  c.work = 2.0 * static_cast<double>(p.m * p.n * p.k);
  c.peak *= 2.0 * static_cast<double>(kFractalSide * kFractalSide * p.c0);
  return c;
}

/*! \brief Accumulating mmads with small results need a PIPE_M barrier between them. */
bool mmad_in_order(const Instr& instr, const ChipParams& chip) {
  const Mmad p = decode(instr, chip);
  return static_cast<double>(p.mf * p.nf) >= chip.at("mmad_ordered_min_fractals");
}

constexpr ImplRow kRows[] = {{OP_mmad, {exec_mmad, mmad_accesses, mmad_cost, mmad_in_order}}};

}  // namespace

ImplRows mmad_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
