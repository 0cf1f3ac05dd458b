/*!
 * \file access.h
 * \brief Small helpers to describe and move bytes of operands.
 */
#ifndef TILELANG_ASCEND_ISA_ACCESS_H_
#define TILELANG_ASCEND_ISA_ACCESS_H_

#include <algorithm>

#include "../machine/instr.h"

namespace tla {
namespace isa {

/*! \brief Bytes of an element, at least 1. */
inline int size_of(const Operand& o) { return std::max(1, itemsize(o.dtype)); }

/*! \brief A strided piece of an operand, `at` bytes from its head. Empty pieces are left out. */
inline void push_access(AccessList& out, const Operand& o, bool write, int align, int64_t at, int64_t len,
                        int64_t count = 1, int64_t stride = 0, int64_t outer_count = 1, int64_t outer_stride = 0) {
  if (len <= 0 || count <= 0 || outer_count <= 0) return;
  Access a;
  a.space = o.space;
  a.tile = o.tile;
  a.write = write;
  a.align = o.space == GM ? 1 : align;
  a.base = o.offset + at;
  a.len = len;
  a.count = count;
  a.stride = stride;
  a.outer_count = outer_count;
  a.outer_stride = outer_stride;
  out.push_back(a);
}

/*! \brief Mark bytes of a destination as defined. */
inline void mark_defined(ExecContext& ctx, const Operand& d, int64_t at, int64_t bytes) {
  if (uint8_t* shadow = ctx.shadow(d)) std::memset(shadow + at, 0, static_cast<size_t>(bytes));
}

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_ACCESS_H_
