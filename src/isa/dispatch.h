/*!
 * \file dispatch.h
 * \brief From the dtype code of an operand word to a C++ storage type, once per instruction.
 */
#ifndef TILELANG_ASCEND_ISA_DISPATCH_H_
#define TILELANG_ASCEND_ISA_DISPATCH_H_

#include "../machine/instr.h"
#include "dtype.h"

namespace tla {
namespace isa {

/*! \brief A list of storage types that `with_type` may choose from. */
template <class... Ts>
struct Types {};

using FloatTypes = Types<float, Half>;
using AllTypes = Types<float, Half, int32_t, int16_t, BFloat16, uint32_t, uint16_t, int8_t, uint8_t, int64_t, uint64_t,
                       Float8E4M3, Float8E5M2>;

template <class T>
constexpr uint8_t kDTypeOf = 0;
template <>
constexpr uint8_t kDTypeOf<int8_t> = kInt8;
template <>
constexpr uint8_t kDTypeOf<uint8_t> = kUInt8;
template <>
constexpr uint8_t kDTypeOf<int16_t> = kInt16;
template <>
constexpr uint8_t kDTypeOf<uint16_t> = kUInt16;
template <>
constexpr uint8_t kDTypeOf<int32_t> = kInt32;
template <>
constexpr uint8_t kDTypeOf<uint32_t> = kUInt32;
template <>
constexpr uint8_t kDTypeOf<int64_t> = kInt64;
template <>
constexpr uint8_t kDTypeOf<uint64_t> = kUInt64;
template <>
constexpr uint8_t kDTypeOf<Half> = kFloat16;
template <>
constexpr uint8_t kDTypeOf<BFloat16> = kBFloat16;
template <>
constexpr uint8_t kDTypeOf<float> = kFloat32;
template <>
constexpr uint8_t kDTypeOf<Float8E4M3> = kFloat8E4M3;
template <>
constexpr uint8_t kDTypeOf<Float8E5M2> = kFloat8E5M2;

/*! \brief Call `fn(T{})` with the type of a dtype code (bool is stored as uint8); false when the list lacks it. */
template <class... Ts, class Fn>
inline bool with_type(Types<Ts...>, uint8_t code, Fn&& fn) {
  if (code == kBool) code = kUInt8;
  return ((kDTypeOf<Ts> == code ? (fn(Ts{}), true) : false) || ...);
}

/*! \brief Like `with_type`, and reports an instruction whose dtype has no implementation. */
template <class List, class Fn>
inline void with_type_or_report(List list, uint8_t code, ExecContext& ctx, const Instr& instr, Fn&& fn) {
  if (!with_type(list, code, fn)) ctx.report_invalid(instr, "the instruction does not exist for this dtype");
}

/*! \brief A scalar argument (float64 bits, or the integer itself for integer dtypes) as the compute type of T. */
template <class T>
inline typename Compute<T>::type scalar_arg(const Instr& instr, int index) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(instr.args[index]);
  } else {
    return static_cast<typename Compute<T>::type>(instr.f(index));
  }
}

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_DISPATCH_H_
