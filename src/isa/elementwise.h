/*!
 * \file elementwise.h
 * \brief From a scalar function to the loops, accesses and table rows of a lane-wise vector instruction.
 *
 * A functor has `static TLA_INLINE C apply(…)` on the compute type C of the dtype. Loops carry `ivdep`: source and
 * destination are either the same lanes or disjoint (`run_lanes` copies sources that overlap in any other way).
 */
#ifndef TILELANG_ASCEND_ISA_ELEMENTWISE_H_
#define TILELANG_ASCEND_ISA_ELEMENTWISE_H_

#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"
#include "simd.h"

namespace tla {
namespace isa {

/*! \brief The stream argument of a scalar operand as the compute type of T. */
template <class T>
TLA_INLINE typename Compute<T>::type decode_scalar(int64_t raw) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(raw);
  } else {
    return static_cast<typename Compute<T>::type>(bit_cast<double>(raw));
  }
}

// ---- loops: Kernel::run of simd_run -------------------------------------------------------------------------------

/*! \brief d = Op(s) */
template <class T, class Op>
struct UnaryLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const T* a = reinterpret_cast<const T*>(s0);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) out[i] = Op::template apply<T>(a[i]);
  }
};

/*! \brief d = Op(s0, s1) */
template <class T, class Op>
struct BinaryLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t* s1, int64_t, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const T* a = reinterpret_cast<const T*>(s0);
    const T* b = reinterpret_cast<const T*>(s1);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) out[i] = store<T>(Op::apply(load(a[i]), load(b[i])));
  }
};

/*! \brief d = Op(s, scalar) */
template <class T, class Op>
struct ScalarLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t scalar, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const T* a = reinterpret_cast<const T*>(s0);
    const auto b = decode_scalar<T>(scalar);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) out[i] = store<T>(Op::apply(load(a[i]), b));
  }
};

/*! \brief d = scalar */
template <class T>
struct FillLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t*, const uint8_t*, int64_t scalar, int64_t n) {
    T* out = reinterpret_cast<T*>(d);
    const T value = store<T>(decode_scalar<T>(scalar));
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  }
};

/*! \brief The loop of Kernel for this host. */
template <class Kernel>
inline LaneLoop lane_loop() {
#if TLA_HAS_X86_LEVELS
  using Run = void (*)(uint8_t*, const uint8_t*, const uint8_t*, int64_t, int64_t);
  static const Run loops[3] = {
      [](uint8_t* d, const uint8_t* a, const uint8_t* b, int64_t s, int64_t n) { Kernel::run(d, a, b, s, n); },
      &simd_run_v3<Kernel, uint8_t*, const uint8_t*, const uint8_t*, int64_t, int64_t>,
      &simd_run_v4<Kernel, uint8_t*, const uint8_t*, const uint8_t*, int64_t, int64_t>,
  };
  return loops[simd_level()];
#else
  return [](uint8_t* d, const uint8_t* a, const uint8_t* b, int64_t s, int64_t n) { Kernel::run(d, a, b, s, n); };
#endif
}

// ---- instructions ---------------------------------------------------------------------------------------------------

constexpr VectorForm kUnaryCount{0, 2, 0, false, false}, kUnaryMask{0, 2, 0, true, false};
constexpr VectorForm kBinaryCount{0, 3, 0, false, false}, kBinaryMask{0, 3, 0, true, false};
constexpr VectorForm kScalarCount{0, 2, 1, false, false}, kScalarMask{0, 2, 1, true, false};
constexpr VectorForm kBinaryUpdateCount{0, 3, 0, false, true}, kBinaryUpdateMask{0, 3, 0, true, true};
constexpr VectorForm kScalarUpdateCount{0, 2, 1, false, true}, kScalarUpdateMask{0, 2, 1, true, true};
constexpr VectorForm kFillCount{0, 1, 1, false, false}, kFillMask{0, 1, 1, true, false};
constexpr VectorForm kCastCount{1, 2, 0, false, false}, kCastMask{1, 2, 0, true, false};

template <const VectorForm& kForm>
void form_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  append_form_accesses(instr, kForm, out);
}

template <const VectorForm& kForm>
Cost form_cost(const Instr& instr, const ChipParams& chip) {
  return vector_cost(instr, kForm, chip);
}

/*! \brief Execute `Loop<T, Op>` where T is the dtype of the destination, one of `List`. */
template <template <class, class> class Loop, class Op, class List, const VectorForm& kForm>
int64_t exec_lanes(ExecContext& ctx, const Instr& instr) {
  with_type_or_report(List{}, instr.operand(kForm.attrs).dtype, ctx, instr,
                      [&](auto t) { run_lanes(ctx, instr, kForm, lane_loop<Loop<decltype(t), Op>>()); });
  return 0;
}

template <template <class, class> class Loop, class Op, class List, const VectorForm& kForm>
constexpr OpImpl lane_impl() {
  return {exec_lanes<Loop, Op, List, kForm>, form_accesses<kForm>, form_cost<kForm>, nullptr};
}

/*! \brief Like exec_lanes for a bitwise `Op`: `Op::undefined` (a BitRule) tells the undefined bits of the result. */
template <template <class, class> class Loop, class Op, class List, const VectorForm& kForm>
int64_t exec_bits(ExecContext& ctx, const Instr& instr) {
  with_type_or_report(List{}, instr.operand(kForm.attrs).dtype, ctx, instr, [&](auto t) {
    run_lanes(ctx, instr, kForm, lane_loop<Loop<decltype(t), Op>>(), 0, &Op::undefined);
  });
  return 0;
}

template <template <class, class> class Loop, class Op, class List, const VectorForm& kForm>
constexpr OpImpl bits_impl() {
  return {exec_bits<Loop, Op, List, kForm>, form_accesses<kForm>, form_cost<kForm>, nullptr};
}

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_ELEMENTWISE_H_
