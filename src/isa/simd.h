/*!
 * \file simd.h
 * \brief Run one loop compiled for several instruction sets; the best one is chosen when the program runs.
 *
 * A kernel is a struct with `static TLA_INLINE void run(args…)`. Its loops are plain C++: the compiler vectorises
 * them once per instruction set. No kernel may contract a*b+c, so that every host computes the same bits
 * (the library is compiled with -ffp-contract=off).
 */
#ifndef TILELANG_ASCEND_ISA_SIMD_H_
#define TILELANG_ASCEND_ISA_SIMD_H_

#include "dtype.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define TLA_HAS_X86_LEVELS 1
#else
#define TLA_HAS_X86_LEVELS 0
#endif

/*! \brief The next loop carries no dependence: its arrays are the same elements or disjoint. */
#if defined(__clang__)
#define TLA_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TLA_IVDEP _Pragma("GCC ivdep")
#endif

namespace tla {
namespace isa {

#if TLA_HAS_X86_LEVELS

#define TLA_TARGET_V3 __attribute__((target("avx,avx2,bmi,bmi2,f16c")))
#define TLA_TARGET_V4 __attribute__((target("avx,avx2,bmi,bmi2,f16c,avx512f,avx512bw,avx512dq,avx512vl")))

/*! \brief 0 = baseline, 1 = AVX2, 2 = AVX-512. */
inline int simd_level() {
  static const int level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return 0;
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v4 ? 2 : 1;
  }();
  return level;
}

template <class Kernel, class... Args>
TLA_TARGET_V4 void simd_run_v4(Args... args) {
  Kernel::run(args...);
}

template <class Kernel, class... Args>
TLA_TARGET_V3 void simd_run_v3(Args... args) {
  Kernel::run(args...);
}

/*! \brief `Kernel::run(args…)` with the widest vectors this host has. */
template <class Kernel, class... Args>
inline void simd_run(Args... args) {
  switch (simd_level()) {
    case 2:
      return simd_run_v4<Kernel>(args...);
    case 1:
      return simd_run_v3<Kernel>(args...);
    default:
      return Kernel::run(args...);
  }
}

#else

template <class Kernel, class... Args>
inline void simd_run(Args... args) {
  Kernel::run(args...);
}

#endif  // TLA_HAS_X86_LEVELS

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_SIMD_H_
