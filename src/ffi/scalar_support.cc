/* What LLVM host programs need besides the machine: scalar operations the LLVM back end of TVM has no sound code for.
 */
#include "isa/dtype.h"
#include "isa/ops.h"
#include "machine/machine.h"

#define TLA_EXPORT extern "C" __attribute__((visibility("default")))

/*! \brief `value` rounded to the nearest bfloat16 value, ties to even (tilelang_ascend/sim/bf16.py). */
TLA_EXPORT float tla_round_bf16(float value) { return tla::isa::to_float(tla::isa::to_bfloat16(value)); }

/*! \brief The larger and the smaller of two numbers as the vector unit has them (tilelang_ascend/sim/compares.py). */
TLA_EXPORT float tla_max_float(float a, float b) { return tla::isa::Max::apply(a, b); }
TLA_EXPORT float tla_min_float(float a, float b) { return tla::isa::Min::apply(a, b); }

/*! \brief `value` truncated towards zero and limited to [low, high]; 0 for NaN (tilelang_ascend/sim/integers.py). */
TLA_EXPORT int64_t tla_to_integer(double value, int64_t low, int64_t high) {
  if (value != value) return 0;
  if (value >= static_cast<double>(high)) return high;
  return value <= static_cast<double>(low) ? low : static_cast<int64_t>(value);
}

/*! \brief The bits of the uint64 next to `value` towards zero; 0 for NaN (tilelang_ascend/sim/integers.py). */
TLA_EXPORT int64_t tla_to_uint64(double value) {
  if (!(value > 0)) return 0;
  return value >= 18446744073709551616.0 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
}

/*! \brief Sums and products of int64 that wrap (tilelang_ascend/sim/integers.py). */
TLA_EXPORT int64_t tla_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
TLA_EXPORT int64_t tla_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
TLA_EXPORT int64_t tla_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/*! \brief Powers of integers, whose products wrap; to a negative power only 1 and -1 are not 0. */
TLA_EXPORT int64_t tla_power_unsigned(int64_t a, int64_t n) {
  uint64_t power = 1;
  for (uint64_t square = static_cast<uint64_t>(a), left = static_cast<uint64_t>(n); left != 0;
       left >>= 1, square *= square) {
    if (left & 1) power *= square;
  }
  return static_cast<int64_t>(power);
}
TLA_EXPORT int64_t tla_power(int64_t a, int64_t n) {
  if (n < 0) return a == 1 || a == -1 ? (n & 1 ? a : 1) : 0;
  return tla_power_unsigned(a, n);
}

// Division of integers (tilelang_ascend/sim/integers.py). By zero the quotient is 0 and the remainder the dividend, and
// the machine is told of the line. The most negative number by -1 is itself.

namespace {

bool is_zero(int64_t b, int32_t line) {
  if (b != 0) return false;
  if (tla::Core* core = tla::Machine::current()) core->divides_by_zero(line);
  return true;
}

int64_t negative(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }

}  // namespace

/*! \brief Quotient rounded towards zero. */
TLA_EXPORT int64_t tla_trunc_div(int64_t a, int64_t b, int32_t line) {
  return is_zero(b, line) ? 0 : b == -1 ? negative(a) : a / b;
}

/*! \brief Remainder with the sign of the dividend. */
TLA_EXPORT int64_t tla_trunc_mod(int64_t a, int64_t b, int32_t line) {
  return is_zero(b, line) ? a : b == -1 ? 0 : a % b;
}

/*! \brief Quotient rounded towards minus infinity. */
TLA_EXPORT int64_t tla_floor_div(int64_t a, int64_t b, int32_t line) {
  if (is_zero(b, line)) return 0;
  if (b == -1) return negative(a);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/*! \brief Remainder with the sign of the divisor. */
TLA_EXPORT int64_t tla_floor_mod(int64_t a, int64_t b, int32_t line) {
  if (is_zero(b, line)) return a;
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/*! \brief The same of uint64. */
TLA_EXPORT int64_t tla_trunc_div_unsigned(int64_t a, int64_t b, int32_t line) {
  return is_zero(b, line) ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
}

TLA_EXPORT int64_t tla_trunc_mod_unsigned(int64_t a, int64_t b, int32_t line) {
  return is_zero(b, line) ? a : static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
}

TLA_EXPORT int64_t tla_floor_div_unsigned(int64_t a, int64_t b, int32_t line) {
  return tla_trunc_div_unsigned(a, b, line);
}

TLA_EXPORT int64_t tla_floor_mod_unsigned(int64_t a, int64_t b, int32_t line) {
  return tla_trunc_mod_unsigned(a, b, line);
}
