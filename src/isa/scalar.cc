/*!
 * \file scalar.cc
 * \brief get_value, set_value, data_cache_clean (pipe S). The other scalar instructions belong to the machine.
 */
#include "access.h"
#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"

namespace tla {
namespace isa {
namespace {

int64_t exec_get_value(ExecContext& ctx, const Instr& instr) {
  const Operand s = instr.operand(0);
  const int size = size_of(s);
  uint8_t* shadow = ctx.shadow(s);
  if (shadow != nullptr && any_undefined(shadow, size)) {
    ctx.hold_undefined(instr, s.space, s.offset, size);
  }
  uint8_t unwritten[8];
  if (s.space == GM && shadow == nullptr && ctx.unwritten_shadow(s.offset, size, unwritten)) {
    ctx.hold_undefined(instr, s.space, s.offset, size);
  }
  int64_t result = 0;
  with_type_or_report(AllTypes{}, s.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    T value;
    std::memcpy(&value, ctx.data(s), sizeof(T));
    if constexpr (std::is_integral<T>::value) {
      result = static_cast<int64_t>(value);
    } else {
      result = bit_cast<int64_t>(static_cast<double>(load(value)));
    }
  });
  return result;
}

int64_t exec_set_value(ExecContext& ctx, const Instr& instr) {
  const Operand d = instr.operand(0);
  with_type_or_report(AllTypes{}, d.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    const T value = store<T>(scalar_arg<T>(instr, 1));
    std::memcpy(ctx.data(d), &value, sizeof(T));
  });
  mark_defined(ctx, d, 0, size_of(d));
  if (d.space == GM) ctx.mark_written(d.offset, size_of(d), false);
  return 0;
}

/*! \brief Caches are not modelled: values are always in memory, so that there is nothing to write back. */
int64_t exec_cache_clean(ExecContext&, const Instr&) { return 0; }

template <bool kWrite>
void element_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Operand o = instr.operand(0);
  push_access(out, o, kWrite, size_of(o), 0, size_of(o));
}

void no_accesses(const ExecContext*, const Instr&, const ChipParams&, AccessList&) {}

constexpr ImplRow kRows[] = {
    {OP_get_value, {exec_get_value, element_accesses<false>, fixed_cost, nullptr}},
    {OP_set_value, {exec_set_value, element_accesses<true>, fixed_cost, nullptr}},
    {OP_data_cache_clean, {exec_cache_clean, no_accesses, fixed_cost, nullptr}},
};

}  // namespace

ImplRows scalar_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
