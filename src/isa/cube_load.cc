/*!
 * \file cube_load.cc
 * \brief L1 -> L0A / L0B: load_l0a, load_l0b, their transposing forms and the a5 forms (pipe MTE1).
 */
#include "access.h"
#include "cost.h"
#include "cube.h"
#include "impls.h"

namespace tla {
namespace isa {
namespace {

/*! \brief Transpose a 16x16 matrix of 2-byte elements. */
void transpose_b16(uint8_t* to, const uint8_t* from) {
  uint16_t in[256], out[256];
  std::memcpy(in, from, kFractalBytes);
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 16; ++c) out[c * 16 + r] = in[r * 16 + c];
  }
  std::memcpy(to, out, kFractalBytes);
}

/*! \brief The same for a shadow, which is seldom anything but zeros. */
void transpose_b16_shadow(uint8_t* to, const uint8_t* from) {
  if (any_undefined(from, kFractalBytes)) return transpose_b16(to, from);
  std::memset(to, 0, kFractalBytes);
}

/*! \brief Run `fn(to, from, transpose of a fractal)` on the data of the two operands and, when tracked, on their
 * shadows. */
template <class Fn>
void on_data_and_shadow(ExecContext& ctx, const Instr& instr, Fn&& fn) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  fn(ctx.data(d), static_cast<const uint8_t*>(ctx.data(s)), transpose_b16);
  if (uint8_t* shadow = ctx.shadow(d)) fn(shadow, static_cast<const uint8_t*>(ctx.shadow(s)), transpose_b16_shadow);
}

bool refuses_transpose(ExecContext& ctx, const Instr& instr, bool transpose) {
  if (!transpose || size_of(instr.operand(0)) == 2) return false;
  ctx.report_invalid(instr, "if_transpose works on 16-bit dtypes only");
  return true;
}

// ---- load_l0a, load_l0b: d, s, start_index, repeat_times, src_stride, dst_gap, if_transpose -------------------------

int64_t exec_load(ExecContext& ctx, const Instr& instr) {
  const int64_t* a = instr.args;
  if (refuses_transpose(ctx, instr, a[6] != 0)) return 0;
  on_data_and_shadow(ctx, instr, [a](uint8_t* to, const uint8_t* from, auto* transpose) {
    for (int64_t i = 0; i < a[3]; ++i) {
      uint8_t* d = to + i * (1 + a[5]) * kFractalBytes;
      const uint8_t* s = from + (a[2] + i * a[4]) * kFractalBytes;
      if (a[6]) {
        transpose(d, s);
      } else {
        std::memcpy(d, s, kFractalBytes);
      }
    }
  });
  return 0;
}

void load_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t* a = instr.args;
  push_access(out, instr.operand(1), false, kL1Align, a[2] * kFractalBytes, kFractalBytes, a[3], a[4] * kFractalBytes);
  push_access(out, instr.operand(0), true, kFractalBytes, 0, kFractalBytes, a[3], (1 + a[5]) * kFractalBytes);
}

Cost load_cost(const Instr& instr, const ChipParams& chip) {
  return bytes_cost(instr, chip, static_cast<double>(instr.args[3] * kFractalBytes));
}

// ---- load_l0*_transpose: d, s, start_index, repeat_times, src_stride, dst_gap, dst_frac_gap -------------------------

/*! \brief A square block: b8 32x32 as two fractals one below the other, b16 one, b32 16x16 as two side by side. */
struct Square {
  int side, fractals;
};

Square square_of(int size) { return {size == 1 ? 32 : 16, size == 2 ? 1 : 2}; }

/*! \brief Byte offset of element (row, column) in a square whose fractals lie `step` bytes apart. */
int64_t element_in_square(int row, int column, int size, int64_t step) {
  const int c0 = kBlockBytes / size;
  const int fractal = row / 16 + column / c0;
  return fractal * step + (row % 16) * kBlockBytes + (column % c0) * size;
}

int64_t exec_load_transpose(ExecContext& ctx, const Instr& instr) {
  const int64_t* a = instr.args;
  const int size = size_of(instr.operand(0));
  const Square q = square_of(size);
  on_data_and_shadow(ctx, instr, [&](uint8_t* to, const uint8_t* from, auto*) {
    for (int64_t i = 0; i < a[3]; ++i) {
      uint8_t* d = to + i * (1 + a[5]) * kFractalBytes;
      const uint8_t* s = from + (a[2] + i * a[4]) * q.fractals * kFractalBytes;
      for (int r = 0; r < q.side; ++r) {
        for (int c = 0; c < q.side; ++c) {
          std::memcpy(d + element_in_square(c, r, size, (1 + a[6]) * kFractalBytes),
                      s + element_in_square(r, c, size, kFractalBytes), static_cast<size_t>(size));
        }
      }
    }
  });
  return 0;
}

void load_transpose_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t* a = instr.args;
  const int64_t square = square_of(size_of(instr.operand(0))).fractals;
  push_access(out, instr.operand(1), false, kL1Align, a[2] * square * kFractalBytes, square * kFractalBytes, a[3],
              a[4] * square * kFractalBytes);
  push_access(out, instr.operand(0), true, kFractalBytes, 0, kFractalBytes, square, (1 + a[6]) * kFractalBytes, a[3],
              (1 + a[5]) * kFractalBytes);
}

Cost load_transpose_cost(const Instr& instr, const ChipParams& chip) {
  const int64_t square = square_of(size_of(instr.operand(0))).fractals;
  return bytes_cost(instr, chip, static_cast<double>(instr.args[3] * square * kFractalBytes));
}

// ---- load_l0*_v2: d, s, m_start, k_start, m_step, k_step, src_stride, dst_stride, if_transpose ----------------------

int64_t exec_load_v2(ExecContext& ctx, const Instr& instr) {
  const int64_t* a = instr.args;
  if (refuses_transpose(ctx, instr, a[8] != 0)) return 0;
  on_data_and_shadow(ctx, instr, [a](uint8_t* to, const uint8_t* from, auto* transpose) {
    for (int64_t j = 0; j < a[5]; ++j) {
      for (int64_t i = 0; i < a[4]; ++i) {
        const uint8_t* s = from + ((a[3] + j) * a[6] + a[2] + i) * kFractalBytes;
        if (a[8]) {
          transpose(to + (i * a[7] + j) * kFractalBytes, s);
        } else {
          std::memcpy(to + (j * a[7] + i) * kFractalBytes, s, kFractalBytes);
        }
      }
    }
  });
  return 0;
}

void load_v2_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const int64_t* a = instr.args;
  push_access(out, instr.operand(1), false, kL1Align, (a[3] * a[6] + a[2]) * kFractalBytes, a[4] * kFractalBytes, a[5],
              a[6] * kFractalBytes);
  const int64_t inner = a[8] ? a[5] : a[4], outer = a[8] ? a[4] : a[5];
  push_access(out, instr.operand(0), true, kFractalBytes, 0, inner * kFractalBytes, outer, a[7] * kFractalBytes);
}

Cost load_v2_cost(const Instr& instr, const ChipParams& chip) {
  return bytes_cost(instr, chip, static_cast<double>(instr.args[4] * instr.args[5] * kFractalBytes));
}

constexpr OpImpl kLoad{exec_load, load_accesses, load_cost, nullptr};
constexpr OpImpl kLoadTranspose{exec_load_transpose, load_transpose_accesses, load_transpose_cost, nullptr};
constexpr OpImpl kLoadV2{exec_load_v2, load_v2_accesses, load_v2_cost, nullptr};

constexpr ImplRow kRows[] = {
    {OP_load_l0a, kLoad},
    {OP_load_l0b, kLoad},
    {OP_load_l0a_transpose, kLoadTranspose},
    {OP_load_l0b_transpose, kLoadTranspose},
    {OP_load_l0a_v2, kLoadV2},
    {OP_load_l0b_v2, kLoadV2},
};

}  // namespace

ImplRows cube_load_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
