/*!
 * \file issue.h
 * \brief From an API call to one record of the instruction stream, with the argument rules of the table.
 *
 * `isa_table.h` (opcodes, attribute codes) and `twin_rules.h` (dtypes and limits for one chip generation) are
 * generated from the instruction table when a program is compiled.
 */
#ifndef TILELANG_ASCEND_TWIN_ISSUE_H_
#define TILELANG_ASCEND_TWIN_ISSUE_H_

#include <cstdio>
#include <cstdlib>

#include "isa_table.h"
#include "twin/types.h"

extern "C" {
void tla_issue(int32_t op, int32_t line, int32_t n, const int64_t* args);
int64_t tla_scalar(int32_t op, int32_t line, int32_t n, const int64_t* args);
int32_t tla_core_type(void);
void tla_invalid(int32_t op, int32_t line, const char* why);
int64_t tla_text(const char* text);
int32_t tla_tile(int32_t space, int64_t base, int64_t bytes, int64_t versions, int64_t elements, const char* name);
int64_t tla_capacity(int32_t space);
}

/*! \brief Last parameter of every API function: the line of the call, for reports. */
#define TLA_LINE int32_t tla_line = __builtin_LINE()

namespace tla {
namespace twin {

struct Limit {
  const char* name;
  int64_t lo, hi;
};

/*! \brief Rules of one record: `signatures` (one byte per operand, first operand highest) and `limits` of its
 * arguments. */
template <int32_t Op>
struct Rule;

}  // namespace twin
}  // namespace tla

#include "twin_rules.h"

namespace tla {
namespace twin {

/*! \brief True when the record accepts operands of these element types on this chip. */
template <int32_t Op, typename... T>
constexpr bool Supports() {
  uint64_t key = 0;
  ((key = key << 8 | Code<T>::value), ...);
  for (uint64_t row : Rule<Op>::signatures) {
    if (row == key) return true;
  }
  return sizeof...(T) == 0;
}

#define TLA_REQUIRE(op, api, ...)                            \
  static_assert(tla::twin::Supports<tla::op, __VA_ARGS__>(), \
                api " does not support these data types on this chip generation (" TLA_GENERATION ")")

/*! \brief Report arguments outside the limits of the table. Not a template, so that it is compiled once. */
__attribute__((noinline)) inline void CheckLimits(int32_t op, int32_t line, const char* api, const Limit* limits,
                                                  int count, const int64_t* args) {
  for (int i = 0; i < count; ++i) {
    const Limit& limit = limits[i];
    if (limit.name == nullptr || (args[i] >= limit.lo && args[i] <= limit.hi)) continue;
    char why[160];
    std::snprintf(why, sizeof(why), "%s: %s=%lld is outside %lld..%lld", api, limit.name,
                  static_cast<long long>(args[i]), static_cast<long long>(limit.lo), static_cast<long long>(limit.hi));
    tla_invalid(op, line, why);
  }
}

/*! \brief Issue one instruction: attribute codes, operand words and arguments in table order. */
template <int32_t Op, typename... A>
inline void Issue(int32_t line, A... a) {
  const int64_t args[sizeof...(A) + 1] = {static_cast<int64_t>(a)..., 0};
  static_assert(sizeof...(A) == Rule<Op>::num_args, "the twin passes a wrong number of arguments");
  constexpr int kChecked = static_cast<int>(sizeof...(A)) - Rule<Op>::first_arg;
  if (kChecked > 0) CheckLimits(Op, line, Rule<Op>::api, Rule<Op>::limits, kChecked, args + Rule<Op>::first_arg);
  tla_issue(Op, line, static_cast<int32_t>(sizeof...(A)), args);
}

/*! \brief As `Issue`, for instructions that return a value. */
template <int32_t Op, typename... A>
inline int64_t IssueScalar(int32_t line, A... a) {
  const int64_t args[sizeof...(A) + 1] = {static_cast<int64_t>(a)..., 0};
  return tla_scalar(Op, line, static_cast<int32_t>(sizeof...(A)), args);
}

/*! \brief The two words of a vector mask given as a number of leading lanes. */
struct MaskWords {
  uint64_t hi, lo;
  explicit MaskWords(uint64_t lanes)
      : hi(lanes <= 64 ? 0 : (lanes >= 128 ? ~0ull : (1ull << (lanes - 64)) - 1)),
        lo(lanes >= 64 ? ~0ull : (1ull << lanes) - 1) {}
  explicit MaskWords(const uint64_t* words) : hi(words[1]), lo(words[0]) {}
};

inline bool IsAic() { return tla_core_type() == 0; }

/*! \brief A kernel declared for one kind of core must run on it. */
inline void CheckKernelType(KernelType type, int32_t line) {
  const bool only_aic = type == KERNEL_TYPE_AIC_ONLY || type == KERNEL_TYPE_MIX_AIC_1_0;
  const bool only_aiv = type == KERNEL_TYPE_AIV_ONLY || type == KERNEL_TYPE_MIX_AIV_1_0;
  if ((only_aic && !IsAic()) || (only_aiv && IsAic()))
    tla_invalid(-1, line, "the kernel type does not run on this kind of core");
}

}  // namespace twin
}  // namespace tla

#define ASCEND_IS_AIC (tla::twin::IsAic())
#define ASCEND_IS_AIV (!tla::twin::IsAic())
#define ASCEND_IS_NOT_AIC (!tla::twin::IsAic())
#define ASCEND_IS_NOT_AIV (tla::twin::IsAic())
#define KERNEL_TASK_TYPE_DEFAULT(type) tla::twin::CheckKernelType(type, __LINE__)

#endif  // TILELANG_ASCEND_TWIN_ISSUE_H_
