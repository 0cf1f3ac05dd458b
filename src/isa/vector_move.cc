/*!
 * \file vector_move.cc
 * \brief Lanes that change their place: copy, brcb, gather, transposes; and create_vec_index, copy_ub_to_ub.
 */
#include "access.h"
#include "elementwise.h"
#include "ops.h"

namespace tla {
namespace isa {
namespace {

template <class T, class>
struct CopyLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    std::memmove(d, s0, static_cast<size_t>(n) * sizeof(T));
  }
};

/*! \brief Move `bytes` and their shadow; offsets from the heads of the two operands. */
void move_bytes(ExecContext& ctx, const Operand& d, int64_t to, const Operand& s, int64_t from, int64_t bytes) {
  std::memmove(ctx.data(d) + to, ctx.data(s) + from, static_cast<size_t>(bytes));
  if (uint8_t* shadow = ctx.shadow(d)) std::memmove(shadow + to, ctx.shadow(s) + from, static_cast<size_t>(bytes));
}

// ---- copy_ub_to_ub: d, s, block_count, block_len, src_gap, dst_gap (32-byte blocks) ---------------------------------

int64_t exec_ub_to_ub(ExecContext& ctx, const Instr& instr) {
  const BlockCopy c = decode_block_copy(instr);
  for (int64_t r = 0; r < c.rows; ++r) {
    move_bytes(ctx, instr.operand(0), r * c.d_step, instr.operand(1), r * c.s_step, c.bytes);
  }
  return 0;
}

void ub_to_ub_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const BlockCopy c = decode_block_copy(instr);
  push_access(out, instr.operand(1), false, kBlockBytes, 0, c.bytes, c.rows, c.s_step);
  push_access(out, instr.operand(0), true, kBlockBytes, 0, c.bytes, c.rows, c.d_step);
}

Cost ub_to_ub_cost(const Instr& instr, const ChipParams& chip) {
  const BlockCopy c = decode_block_copy(instr);
  return bytes_cost(instr, chip, static_cast<double>(c.rows * c.bytes));
}

// ---- brcb: d, s, repeat, d_blk, d_rep -------------------------------------------------------------------------------

int64_t exec_brcb(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  const int size = size_of(s);
  for (int64_t i = 0; i < instr.args[2] * 8; ++i) {
    const int64_t block = (i / 8) * instr.args[4] * kBlockBytes + (i % 8) * instr.args[3] * kBlockBytes;
    for (int lane = 0; lane < kBlockBytes / size; ++lane) {
      move_bytes(ctx, d, block + lane * size, s, i * size, size);
    }
  }
  return 0;
}

void brcb_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Operand d = instr.operand(0), s = instr.operand(1);
  push_access(out, s, false, kBlockBytes, 0, instr.args[2] * 8 * size_of(s));
  push_access(out, d, true, kBlockBytes, 0, kBlockBytes, 8, instr.args[3] * kBlockBytes, instr.args[2],
              instr.args[4] * kBlockBytes);
}

Cost brcb_cost(const Instr& instr, const ChipParams& chip) {
  const int size = size_of(instr.operand(1));
  return lanes_cost(instr, chip, size, static_cast<double>(instr.args[2] * (kRepeatBytes / size)));
}

// ---- gather: d, s, offset, base_offset, count -----------------------------------------------------------------------

/*! \brief Byte offset of element i from the head of s. */
int64_t gather_offset(const uint8_t* offsets, int64_t base, int64_t i) {
  uint32_t offset;
  std::memcpy(&offset, offsets + i * 4, sizeof(offset));
  return base + offset;
}

/*! \brief Undefined offsets matter: report the first, then treat all as defined. */
void check_offsets(ExecContext& ctx, const Instr& instr, const Operand& offset, int64_t bytes) {
  uint8_t* shadow = ctx.shadow(offset);
  if (shadow == nullptr || !any_undefined(shadow, bytes)) return;
  int64_t first = 0;
  while (shadow[first] == 0) ++first;
  ctx.report_undefined(instr, offset.space, offset.offset + first, 1, "gather offset");
  std::memset(shadow, 0, static_cast<size_t>(bytes));
}

int64_t exec_gather(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(0), s = instr.operand(1), offset = instr.operand(2);
  const int64_t base = instr.args[3], count = instr.args[4];
  const int size = size_of(d);
  if (count <= 0) return 0;
  check_offsets(ctx, instr, offset, count * 4);
  const uint8_t* offsets = ctx.data(offset);
  for (int64_t i = 0; i < count; ++i) move_bytes(ctx, d, i * size, s, gather_offset(offsets, base, i), size);
  return 0;
}

/*! \brief The elements read, consecutive ones joined; left out when values are not simulated. */
void gather_reads(const ExecContext& ctx, const Instr& instr, AccessList& out) {
  const Operand s = instr.operand(1), offset = instr.operand(2);
  const int64_t base = instr.args[3], count = instr.args[4];
  const int64_t room = ctx.mem[offset.space].size - offset.offset;
  if (offset.space == GM || room < count * 4) return;
  const int size = size_of(s);
  const uint8_t* offsets = ctx.data(offset);
  for (int64_t i = 0; i < count;) {
    const int64_t first = gather_offset(offsets, base, i);
    int64_t n = 1;
    while (i + n < count && gather_offset(offsets, base, i + n) == first + n * size) ++n;
    push_access(out, s, false, size, first, n * size);
    i += n;
  }
}

void gather_accesses(const ExecContext* ctx, const Instr& instr, const ChipParams&, AccessList& out) {
  const Operand d = instr.operand(0);
  const int64_t count = instr.args[4];
  push_access(out, instr.operand(2), false, kBlockBytes, 0, count * 4);
  push_access(out, d, true, kBlockBytes, 0, count * size_of(d));
  if (ctx != nullptr) gather_reads(*ctx, instr, out);
}

Cost gather_cost(const Instr& instr, const ChipParams& chip) {
  return lanes_cost(instr, chip, size_of(instr.operand(0)), static_cast<double>(std::max<int64_t>(instr.args[4], 0)));
}

// ---- create_vec_index: d, first_value, count ------------------------------------------------------------------------

template <class T, class>
struct IndexLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t*, const uint8_t*, int64_t scalar, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const auto first = decode_scalar<T>(scalar);
    for (int64_t i = 0; i < n; ++i) out[i] = store<T>(Add::apply(first, static_cast<decltype(first)>(i)));
  }
};

// ---- transpose: 16x16 elements of 16 bits ---------------------------------------------------------------------------

int64_t exec_transpose(ExecContext& ctx, const Instr& instr) {
  constexpr int kSide = 16, kBytes = 512;
  const Operand d = instr.operand(0), s = instr.operand(1);
  auto run = [](uint8_t* to, const uint8_t* from) {
    uint16_t in[kSide * kSide], out[kSide * kSide];
    std::memcpy(in, from, kBytes);
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) out[j * kSide + i] = in[i * kSide + j];
    }
    std::memcpy(to, out, kBytes);
  };
  run(ctx.data(d), ctx.data(s));
  if (uint8_t* shadow = ctx.shadow(d)) run(shadow, ctx.shadow(s));
  return 0;
}

void transpose_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  push_access(out, instr.operand(1), false, kBlockBytes, 0, 512);
  push_access(out, instr.operand(0), true, kBlockBytes, 0, 512);
}

Cost transpose_cost(const Instr& instr, const ChipParams& chip) { return lanes_cost(instr, chip, 2, 256); }

// ---- trans_data_to_5hd: d, s, d_row, s_row, dst_high_half, src_high_half, repeat, d_rep, s_rep ----------------------

/*! \brief 16 source rows of one block; b8 uses half a block, b32 spreads a column over two destination rows. */
struct To5hd {
  int size, columns;  //!< columns: elements of a source row that take part
  int64_t d_row, s_row, d_half, s_half, repeat, d_rep, s_rep;

  int64_t source(int64_t r, int row, int column) const { return r * s_rep + row * s_row + s_half + column * size; }
  int64_t target(int64_t r, int row, int column) const {
    const int per_row = size == 1 ? 16 : kBlockBytes / size;
    const int rows_per_column = 16 / per_row;
    return r * d_rep + (column * rows_per_column + row / per_row) * d_row + d_half + (row % per_row) * size;
  }
};

To5hd decode_5hd(const Instr& instr) {
  const int64_t* a = instr.args;
  const int size = size_of(instr.operand(0));
  const int64_t half = size == 1 ? 16 : 0;
  return {size,
          size == 1 ? 16 : kBlockBytes / size,
          a[2] * kBlockBytes,
          a[3] * kBlockBytes,
          a[4] * half,
          a[5] * half,
          a[6],
          a[7] * kBlockBytes,
          a[8] * kBlockBytes};
}

int64_t exec_5hd(ExecContext& ctx, const Instr& instr) {
  const To5hd p = decode_5hd(instr);
  auto run = [&p](uint8_t* to, const uint8_t* from, int64_t r) {
    uint8_t block[16][kBlockBytes];  // a repeat reads all rows before it writes
    for (int row = 0; row < 16; ++row) {
      std::memcpy(block[row], from + p.source(r, row, 0), static_cast<size_t>(p.columns * p.size));
    }
    for (int row = 0; row < 16; ++row) {
      for (int c = 0; c < p.columns; ++c) {
        std::memcpy(to + p.target(r, row, c), block[row] + c * p.size, static_cast<size_t>(p.size));
      }
    }
  };
  for (int64_t r = 0; r < p.repeat; ++r) {
    run(ctx.data(instr.operand(0)), ctx.data(instr.operand(1)), r);
    if (uint8_t* shadow = ctx.shadow(instr.operand(0))) run(shadow, ctx.shadow(instr.operand(1)), r);
  }
  return 0;
}

void to_5hd_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const To5hd p = decode_5hd(instr);
  const int64_t row_bytes = p.size == 1 ? 16 : kBlockBytes;
  const int align = p.size == 1 ? 16 : kBlockBytes;
  push_access(out, instr.operand(1), false, align, p.s_half, row_bytes, 16, p.s_row, p.repeat, p.s_rep);
  push_access(out, instr.operand(0), true, align, p.d_half, row_bytes, 16, p.d_row, p.repeat, p.d_rep);
}

Cost to_5hd_cost(const Instr& instr, const ChipParams& chip) {
  const To5hd p = decode_5hd(instr);
  return lanes_cost(instr, chip, p.size, static_cast<double>(p.repeat) * 16 * kBlockBytes / p.size);
}

using IndexTypes = Types<float, Half, int32_t, int16_t, int8_t, int64_t>;

constexpr ImplRow kRows[] = {
    {OP_copy_ub_to_ub, {exec_ub_to_ub, ub_to_ub_accesses, ub_to_ub_cost, nullptr}},
    {OP_copy_mask, lane_impl<CopyLoop, void, AllTypes, kUnaryMask>()},
    {OP_brcb, {exec_brcb, brcb_accesses, brcb_cost, nullptr}},
    {OP_gather, {exec_gather, gather_accesses, gather_cost, nullptr}},
    {OP_create_vec_index, lane_impl<IndexLoop, void, IndexTypes, kFillCount>()},
    {OP_transpose, {exec_transpose, transpose_accesses, transpose_cost, nullptr}},
    {OP_trans_data_to_5hd, {exec_5hd, to_5hd_accesses, to_5hd_cost, nullptr}},
};

}  // namespace

ImplRows vector_move_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
