/* What LLVM host programs need besides the machine: scalar conversions the LLVM back end of TVM does not have. */
#include "isa/dtype.h"

/*! \brief `value` rounded to the nearest bfloat16 value, ties to even (tilelang_ascend/sim/bf16.py). */
extern "C" __attribute__((visibility("default"))) float tla_round_bf16(float value) {
  return tla::isa::to_float(tla::isa::to_bfloat16(value));
}
