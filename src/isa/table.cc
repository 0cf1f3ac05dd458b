/*!
 * \file table.cc
 * \brief `kOpImpls`: the rows of all families in opcode order.
 */
#include "impls.h"

namespace tla {
namespace isa {
namespace {

/*! \brief The implementation of an opcode, empty for those the machine itself executes. */
OpImpl find(int32_t op) {
  for (const ImplRows& family : {vector_arith_rows(), vector_math_rows(), vector_cast_rows(), vector_compare_rows(),
                                 vector_reduce_rows(), vector_move_rows(), vector_sort_rows(), dma_rows(),
                                 cube_load_rows(), mmad_rows(), fixpipe_rows(), scalar_rows(), output_rows()}) {
    for (int i = 0; i < family.size; ++i) {
      if (family.rows[i].op == op) return family.rows[i].impl;
    }
  }
  return {};
}

}  // namespace
}  // namespace isa

#define TLA_ROW(name) isa::find(OP_##name),
const OpImpl kOpImpls[kNumOps] = {TLA_FOR_EACH_OP(TLA_ROW)};
#undef TLA_ROW

}  // namespace tla
