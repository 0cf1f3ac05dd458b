/*!
 * \file vector_cast.cc
 * \brief cast: all pairs of dtypes, all rounding modes.
 *
 * float -> int saturates and NaN becomes 0; int -> narrower int saturates; float32 -> float32 (round to integral) turns
 * -0 into +0; every other float -> float keeps the sign of zero (facts: Cast edge values, INF/NAN mode).
 * `none` means round to nearest even wherever bits are lost.
 */
#include "elementwise.h"

namespace tla {
namespace isa {
namespace {

/*! \brief Any value of an element type as a long double: holds every 64-bit integer and every float exactly. */
template <class S>
inline long double exact(S v) {
  return static_cast<long double>(load(v));
}

/*! \brief One element, any pair, any mode. The reference the fast loops must agree with. */
template <class D, class S>
inline D convert(S v, Round mode) {
  if constexpr (std::is_integral<D>::value) {
    if constexpr (std::is_integral<S>::value) {
      return saturate_to_int<D>(exact(v));
    } else {
      return saturate_to_int<D>(round_to_integral(exact(v), mode));
    }
  } else if constexpr (std::is_same<D, S>::value) {
    // Same format: the modes round to an integral value.
    const long double r = round_to_integral(exact(v), mode);
    return encode<D>(r == 0 ? 0.0L : r, Round::kRint);
  } else {
    return encode<D>(exact(v), mode);
  }
}

/*! \brief Vectorised loops for the common conversions: mode is `none` or `rint`, or bits are never lost. */
template <class D, class S>
struct NearestLoop {
  static constexpr bool kExists =
      (std::is_same<D, float>::value && (std::is_same<S, Half>::value || std::is_same<S, BFloat16>::value ||
                                         std::is_same<S, int16_t>::value || std::is_same<S, int32_t>::value)) ||
      (std::is_same<S, float>::value && (std::is_same<D, Half>::value || std::is_same<D, BFloat16>::value)) ||
      (std::is_same<D, Half>::value && (std::is_same<S, int8_t>::value || std::is_same<S, uint8_t>::value));

  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    D* out = reinterpret_cast<D*>(d);
    const S* a = reinterpret_cast<const S*>(s0);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) out[i] = store<D>(static_cast<float>(load(a[i])));
  }
};

// ---- rounding to an integral value as vector code; exact for every float in double arithmetic -----------------------

struct Nearest {
  // Adding 1.5 * 2^52 leaves no fraction bits; beyond 2^51 the value is integral already.
  static TLA_INLINE double apply(double x) {
    const double r = (x + 0x1.8p52) - 0x1.8p52;
    return std::fabs(x) < 0x1p51 ? r : x;
  }
};

struct Floor {
  static TLA_INLINE double apply(double x) {
    const double r = Nearest::apply(x);
    return r > x ? r - 1 : r;
  }
};

struct Ceil {
  static TLA_INLINE double apply(double x) {
    const double r = Nearest::apply(x);
    return r < x ? r + 1 : r;
  }
};

struct Truncate {
  static TLA_INLINE double apply(double x) { return std::copysign(Floor::apply(std::fabs(x)), x); }
};

struct HalfAway {
  static TLA_INLINE double apply(double x) { return std::copysign(Floor::apply(std::fabs(x) + 0.5), x); }
};

/*! \brief float or half to int32. */
template <class D, class S, class Mode>
struct ToInt32Loop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    D* out = reinterpret_cast<D*>(d);
    const S* a = reinterpret_cast<const S*>(s0);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) {
      double x = Mode::apply(static_cast<double>(load(a[i])));
      x = x < -2147483648.0 ? -2147483648.0 : x;
      x = x > 2147483647.0 ? 2147483647.0 : x;
      x = x != x ? 0.0 : x;
      out[i] = static_cast<D>(x);
    }
  }
};

/*! \brief float to an integral float; adding +0 turns -0 into +0. */
template <class D, class S, class Mode>
struct IntegralLoop {
  static TLA_INLINE void run(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t, int64_t n) {
    D* out = reinterpret_cast<D*>(d);
    const S* a = reinterpret_cast<const S*>(s0);
    TLA_IVDEP
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<D>(Mode::apply(static_cast<double>(a[i])) + 0.0);
  }
};

/*! \brief The loop for a mode, null when only the element-wise one has it. */
template <template <class, class, class> class Loop, class D, class S>
LaneLoop integral_loop(Round mode) {
  switch (mode) {
    case Round::kNone:
    case Round::kRint:
      return lane_loop<Loop<D, S, Nearest>>();
    case Round::kFloor:
      return lane_loop<Loop<D, S, Floor>>();
    case Round::kCeil:
      return lane_loop<Loop<D, S, Ceil>>();
    case Round::kRound:
      return lane_loop<Loop<D, S, HalfAway>>();
    case Round::kTrunc:
      return lane_loop<Loop<D, S, Truncate>>();
    default:
      return nullptr;
  }
}

/*! \brief Any pair in any mode, one element at a time; the mode travels in the scalar. */
template <class D, class S>
void exact_loop(uint8_t* d, const uint8_t* s0, const uint8_t*, int64_t mode, int64_t n) {
  D* out = reinterpret_cast<D*>(d);
  const S* a = reinterpret_cast<const S*>(s0);
  for (int64_t i = 0; i < n; ++i) out[i] = convert<D>(a[i], static_cast<Round>(mode));
}

template <class D, class S>
LaneLoop cast_loop(Round mode) {
  const bool nearest = mode == Round::kNone || mode == Round::kRint;
  if constexpr (NearestLoop<D, S>::kExists) {
    const bool lossless = std::is_same<D, float>::value && !std::is_same<S, int32_t>::value;
    if (nearest || lossless) return lane_loop<NearestLoop<D, S>>();
  }
  LaneLoop loop = nullptr;
  if constexpr (std::is_same<D, int32_t>::value && (std::is_same<S, float>::value || std::is_same<S, Half>::value)) {
    loop = integral_loop<ToInt32Loop, D, S>(mode);
  }
  if constexpr (std::is_same<D, float>::value && std::is_same<S, float>::value) {
    loop = integral_loop<IntegralLoop, D, S>(mode);
  }
  if (loop != nullptr) return loop;
  return &exact_loop<D, S>;
}

template <const VectorForm& kForm>
int64_t exec_cast(ExecContext& ctx, const Instr& instr) {
  if (instr.args[0] < 0 || instr.args[0] > static_cast<int64_t>(Round::kOdd)) {
    ctx.report_invalid(instr, "unknown rounding mode");
    return 0;
  }
  const Round mode = static_cast<Round>(instr.args[0]);
  with_type_or_report(AllTypes{}, instr.operand(1).dtype, ctx, instr, [&](auto d) {
    with_type_or_report(AllTypes{}, instr.operand(2).dtype, ctx, instr, [&](auto s) {
      run_lanes(ctx, instr, kForm, cast_loop<decltype(d), decltype(s)>(mode), instr.args[0]);
    });
  });
  return 0;
}

template <class T, class>
using Fill = FillLoop<T>;

constexpr ImplRow kRows[] = {
    {OP_cast, {exec_cast<kCastCount>, form_accesses<kCastCount>, form_cost<kCastCount>, nullptr}},
    {OP_cast_mask, {exec_cast<kCastMask>, form_accesses<kCastMask>, form_cost<kCastMask>, nullptr}},
    {OP_duplicate, lane_impl<Fill, void, AllTypes, kFillCount>()},
    {OP_duplicate_mask, lane_impl<Fill, void, AllTypes, kFillMask>()},
};

}  // namespace

ImplRows vector_cast_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
