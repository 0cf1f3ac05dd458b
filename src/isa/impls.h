/*!
 * \file impls.h
 * \brief The families of instructions; `table.cc` puts their rows in opcode order.
 */
#ifndef TILELANG_ASCEND_ISA_IMPLS_H_
#define TILELANG_ASCEND_ISA_IMPLS_H_

#include "../machine/instr.h"

namespace tla {
namespace isa {

/*! \brief The implementation of one opcode. */
struct ImplRow {
  Op op;
  OpImpl impl;
};

/*! \brief Rows of one family. */
struct ImplRows {
  const ImplRow* rows;
  int size;
};

template <int N>
constexpr ImplRows rows_of(const ImplRow (&rows)[N]) {
  return {rows, N};
}

ImplRows vector_arith_rows();
ImplRows vector_math_rows();
ImplRows vector_cast_rows();
ImplRows vector_compare_rows();
ImplRows vector_reduce_rows();
ImplRows vector_move_rows();
ImplRows vector_sort_rows();
ImplRows dma_rows();
ImplRows cube_load_rows();
ImplRows mmad_rows();
ImplRows fixpipe_rows();
ImplRows scalar_rows();
ImplRows output_rows();

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_IMPLS_H_
