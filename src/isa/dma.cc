/*!
 * \file dma.cc
 * \brief Copies between GM and UB, GM and L1, from UB to L1, and fill_l1 (pipes MTE2, MTE3).
 *
 * Rows in UB start on 32-byte blocks. What a load leaves of the last block of a row is undefined afterwards: it belongs
 * to the write access and its shadow is set, whatever the bytes are.
 */
#include "access.h"
#include "atomic.h"
#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"

namespace tla {
namespace isa {
namespace {

int64_t whole_blocks(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

// ---- copy_gm_to_ub: d, s, block_count, block_len, src_stride, dst_stride, is_pad, left_pad, right_pad, pad_value ----

struct LoadRows {
  int64_t rows, bytes, left, right, s_step, d_step;

  int64_t row_bytes() const { return whole_blocks(left + bytes + right); }
};

LoadRows decode_load(const Instr& instr) {
  const int64_t* a = instr.args;
  const int64_t size = size_of(instr.operand(0));
  LoadRows p{a[2], a[3], a[6] ? a[7] * size : 0, a[6] ? a[8] * size : 0, a[3] + a[4], 0};
  if (p.bytes <= 0 || p.rows <= 0) p.rows = 0;
  p.d_step = p.row_bytes() + a[5] * kBlockBytes;
  return p;
}

/*! \brief Fill `bytes` with copies of an element. */
void fill(uint8_t* to, int64_t bytes, const uint8_t* element, int size) {
  for (int64_t i = 0; i < bytes; i += size) std::memcpy(to + i, element, static_cast<size_t>(size));
}

/*! \brief The bytes of a scalar argument as an element of the operand's dtype. */
void element_bytes(const Instr& instr, int arg, const Operand& o, uint8_t (&bytes)[8]) {
  with_type(AllTypes{}, o.dtype, [&](auto t) {
    using T = decltype(t);
    const T value = store<T>(scalar_arg<T>(instr, arg));
    std::memcpy(bytes, &value, sizeof(T));
  });
}

int64_t exec_gm_to_ub(ExecContext& ctx, const Instr& instr) {
  const LoadRows p = decode_load(instr);
  const Operand d = instr.operand(0), s = instr.operand(1);
  const int size = size_of(d);
  uint8_t pad[8] = {};
  element_bytes(instr, 9, d, pad);
  uint8_t* to = ctx.data(d);
  const uint8_t* from = ctx.data(s);
  uint8_t* to_shadow = ctx.shadow(d);
  const uint8_t* from_shadow = ctx.shadow(s);
  for (int64_t r = 0; r < p.rows; ++r, to += p.d_step, from += p.s_step) {
    fill(to, p.left, pad, size);
    std::memcpy(to + p.left, from, static_cast<size_t>(p.bytes));
    fill(to + p.left + p.bytes, p.right, pad, size);
    if (to_shadow == nullptr) continue;
    uint8_t* row = to_shadow + r * p.d_step;
    const int64_t defined = p.left + p.bytes + p.right;
    std::memset(row, 0, static_cast<size_t>(defined));
    if (from_shadow) {
      std::memcpy(row + p.left, from_shadow + r * p.s_step, static_cast<size_t>(p.bytes));
    } else if (s.space == GM) {
      ctx.unwritten_shadow(s.offset + r * p.s_step, p.bytes, row + p.left);
    }
    std::memset(row + defined, kUndefinedByte, static_cast<size_t>(p.row_bytes() - defined));
  }
  return 0;
}

void gm_to_ub_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const LoadRows p = decode_load(instr);
  push_access(out, instr.operand(1), false, 1, 0, p.bytes, p.rows, p.s_step);
  push_access(out, instr.operand(0), true, kBlockBytes, 0, p.row_bytes(), p.rows, p.d_step);
}

template <int kRows>
Cost rows_cost(const Instr& instr, const ChipParams& chip) {
  return gm_cost(instr, chip, static_cast<double>(instr.args[kRows]));
}

// ---- copy_ub_to_gm: d, s, block_count, block_len, src_stride, dst_stride --------------------------------------------

struct StoreRows {
  int64_t rows, bytes, s_step, d_step;
};

StoreRows decode_store(const Instr& instr) {
  const int64_t* a = instr.args;
  return {a[3] > 0 ? a[2] : 0, a[3], whole_blocks(a[3]) + a[4] * kBlockBytes, a[3] + a[5]};
}

int64_t exec_ub_to_gm(ExecContext& ctx, const Instr& instr) {
  const StoreRows p = decode_store(instr);
  GmWriter writer(ctx, instr, instr.operand(0));
  const Operand s = instr.operand(1);
  for (int64_t r = 0; r < p.rows; ++r) {
    Operand row = s;
    row.offset += r * p.s_step;
    writer.write(r * p.d_step, ctx.data(row), ctx.shadow(row), p.bytes, row.space, row.offset);
  }
  return 0;
}

void ub_to_gm_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const StoreRows p = decode_store(instr);
  push_access(out, instr.operand(1), false, kBlockBytes, 0, p.bytes, p.rows, p.s_step);
  push_gm_write(out, instr, instr.operand(0), p.bytes, p.rows, p.d_step);
}

// ---- copy_gm_to_l1_nd2nz: d, s, nd_num, n_value, d_value, src_nd_matrix_stride, src_d_value, dst_nz_c0_stride,
//      dst_nz_n_stride, dst_nz_matrix_stride --------------------------------------------------------------------------

struct Nd2Nz {
  int64_t matrices, rows, row_bytes, groups;          //!< groups: 32-byte column groups of a row
  int64_t s_matrix, s_row, d_group, d_row, d_matrix;  //!< steps in bytes
};

Nd2Nz decode_nd2nz(const Instr& instr) {
  const int64_t* a = instr.args;
  const int64_t size = size_of(instr.operand(0));
  const int64_t bytes = a[4] * size;
  const bool nothing = a[2] <= 0 || a[3] <= 0 || a[4] <= 0;
  return {nothing ? 0 : a[2],
          a[3],
          bytes,
          (bytes + kBlockBytes - 1) / kBlockBytes,
          a[5] * size,
          a[6] * size,
          a[7] * kBlockBytes,
          a[8] * kBlockBytes,
          a[9] * size};
}

void nd2nz_matrix(const Nd2Nz& p, uint8_t* to, const uint8_t* from) {
  const int64_t full = p.row_bytes / kBlockBytes, tail = p.row_bytes % kBlockBytes;
  for (int64_t r = 0; r < p.rows; ++r) {
    const uint8_t* row = from + r * p.s_row;
    uint8_t* block = to + r * p.d_row;
    for (int64_t g = 0; g < full; ++g) std::memcpy(block + g * p.d_group, row + g * kBlockBytes, kBlockBytes);
    if (tail == 0) continue;
    uint8_t padded[kBlockBytes] = {};
    std::memcpy(padded, row + full * kBlockBytes, static_cast<size_t>(tail));
    std::memcpy(block + full * p.d_group, padded, kBlockBytes);
  }
}

/*! \brief The shadow of a matrix in a fresh output of which something is not written. */
bool any_unwritten(ExecContext& ctx, const Nd2Nz& p, int64_t address, std::vector<uint8_t>& shadow) {
  std::vector<uint8_t> row(static_cast<size_t>(p.row_bytes));
  bool any = false;
  for (int64_t r = 0; r < p.rows; ++r) {
    if (!ctx.unwritten_shadow(address + r * p.s_row, p.row_bytes, row.data())) continue;
    shadow.resize(static_cast<size_t>(std::max<int64_t>((p.rows - 1) * p.s_row, 0) + p.row_bytes));
    if (!any) std::fill(shadow.begin(), shadow.end(), uint8_t{0});
    any = true;
    std::copy(row.begin(), row.end(), shadow.begin() + r * p.s_row);
  }
  return any;
}

int64_t exec_nd2nz(ExecContext& ctx, const Instr& instr) {
  const Nd2Nz p = decode_nd2nz(instr);
  const Operand d = instr.operand(0), s = instr.operand(1);
  uint8_t* to_shadow = ctx.shadow(d);
  const uint8_t* from_shadow = ctx.shadow(s);
  std::vector<uint8_t> unwritten;
  for (int64_t m = 0; m < p.matrices; ++m) {
    nd2nz_matrix(p, ctx.data(d) + m * p.d_matrix, ctx.data(s) + m * p.s_matrix);
    if (to_shadow == nullptr) continue;
    if (from_shadow) {
      nd2nz_matrix(p, to_shadow + m * p.d_matrix, from_shadow + m * p.s_matrix);
      continue;
    }
    if (to_shadow != nullptr && s.space == GM && any_unwritten(ctx, p, s.offset + m * p.s_matrix, unwritten)) {
      nd2nz_matrix(p, to_shadow + m * p.d_matrix, unwritten.data());
      continue;
    }
    const bool dense = p.d_row == kBlockBytes;
    for (int64_t g = 0; g < p.groups; ++g) {
      for (int64_t r = 0; r < (dense ? 1 : p.rows); ++r) {
        std::memset(to_shadow + m * p.d_matrix + g * p.d_group + r * p.d_row, 0,
                    static_cast<size_t>(dense ? p.rows * kBlockBytes : kBlockBytes));
      }
    }
  }
  return 0;
}

void nd2nz_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Nd2Nz p = decode_nd2nz(instr);
  const Operand d = instr.operand(0);
  push_access(out, instr.operand(1), false, 1, 0, p.row_bytes, p.rows, p.s_row, p.matrices, p.s_matrix);
  if (p.d_row == kBlockBytes) {
    push_access(out, d, true, kBlockBytes, 0, p.rows * kBlockBytes, p.groups, p.d_group, p.matrices, p.d_matrix);
    return;
  }
  for (int64_t m = 0; m < p.matrices; ++m) {
    push_access(out, d, true, kBlockBytes, m * p.d_matrix, kBlockBytes, p.rows, p.d_row, p.groups, p.d_group);
  }
}

Cost nd2nz_cost(const Instr& instr, const ChipParams& chip) {
  const Nd2Nz p = decode_nd2nz(instr);
  return gm_cost(instr, chip, static_cast<double>(p.matrices * p.rows));
}

// ---- copy_ub_to_l1: d, s, block_count, block_len, src_gap, dst_gap (32-byte blocks); L1 of the cube core
// --------------

int64_t exec_ub_to_l1(ExecContext& ctx, const Instr& instr) {
  const BlockCopy p = decode_block_copy(instr);
  const Operand d = instr.operand(0), s = instr.operand(1);
  Memory& l1 = ctx.memory_of(kCubeMemory)[L1];
  const uint8_t* shadow = ctx.shadow(s);
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t to = d.offset + r * p.d_step, from = r * p.s_step;
    std::memcpy(l1.data + to, ctx.data(s) + from, static_cast<size_t>(p.bytes));
    if (shadow != nullptr) std::memcpy(l1.shadow + to, shadow + from, static_cast<size_t>(p.bytes));
  }
  return 0;
}

void ub_to_l1_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const BlockCopy p = decode_block_copy(instr);
  push_access(out, instr.operand(1), false, kBlockBytes, 0, p.bytes, p.rows, p.s_step);
  push_access(out, instr.operand(0), true, kBlockBytes, 0, p.bytes, p.rows, p.d_step);
  if (!out.empty() && out.back().write) out.back().holder = kCubeMemory;
}

Cost ub_to_l1_cost(const Instr& instr, const ChipParams& chip) {
  const BlockCopy p = decode_block_copy(instr);
  return runs_cost(instr, chip, static_cast<double>(p.rows * p.bytes), static_cast<double>(p.rows));
}

// ---- fill_l1: d, repeat_times, block_num, dst_gap, value ------------------------------------------------------------

struct FillRuns {
  int64_t runs, bytes, step;
};

FillRuns decode_fill(const Instr& instr) {
  const int64_t* a = instr.args;
  return {a[1], a[2] * kBlockBytes, (a[2] + a[3]) * kBlockBytes};
}

int64_t exec_fill(ExecContext& ctx, const Instr& instr) {
  const FillRuns p = decode_fill(instr);
  const Operand d = instr.operand(0);
  uint8_t element[8] = {};
  element_bytes(instr, 4, d, element);
  for (int64_t r = 0; r < p.runs; ++r) {
    fill(ctx.data(d) + r * p.step, p.bytes, element, size_of(d));
    mark_defined(ctx, d, r * p.step, p.bytes);
  }
  return 0;
}

void fill_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const FillRuns p = decode_fill(instr);
  push_access(out, instr.operand(0), true, kBlockBytes, 0, p.bytes, p.runs, p.step);
}

Cost fill_cost(const Instr& instr, const ChipParams& chip) {
  const FillRuns p = decode_fill(instr);
  return bytes_cost(instr, chip, static_cast<double>(p.runs * p.bytes));
}

constexpr ImplRow kRows[] = {
    {OP_copy_gm_to_ub, {exec_gm_to_ub, gm_to_ub_accesses, rows_cost<2>, nullptr}},
    {OP_copy_ub_to_gm, {exec_ub_to_gm, ub_to_gm_accesses, rows_cost<2>, nullptr}},
    {OP_copy_gm_to_l1_nd2nz, {exec_nd2nz, nd2nz_accesses, nd2nz_cost, nullptr}},
    {OP_fill_l1, {exec_fill, fill_accesses, fill_cost, nullptr}},
    {OP_copy_ub_to_l1, {exec_ub_to_l1, ub_to_l1_accesses, ub_to_l1_cost, nullptr}},
};

}  // namespace

ImplRows dma_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
