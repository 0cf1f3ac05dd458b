/* What LLVM host programs need besides the machine: scalar operations the LLVM back end of TVM has no sound code for.
 */
#include "isa/dtype.h"

#define TLA_EXPORT extern "C" __attribute__((visibility("default")))

/*! \brief `value` rounded to the nearest bfloat16 value, ties to even (tilelang_ascend/sim/bf16.py). */
TLA_EXPORT float tla_round_bf16(float value) { return tla::isa::to_float(tla::isa::to_bfloat16(value)); }

/*! \brief Quotient rounded towards minus infinity (tilelang_ascend/sim/integers.py). */
TLA_EXPORT int64_t tla_floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/*! \brief Remainder with the sign of the divisor. */
TLA_EXPORT int64_t tla_floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
