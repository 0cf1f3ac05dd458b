/*!
 * \file output.h
 * \brief printf, DumpTensor, Trap.
 */
#ifndef TILELANG_ASCEND_TWIN_OUTPUT_H_
#define TILELANG_ASCEND_TWIN_OUTPUT_H_

#include "twin/tensor.h"

namespace tla {
namespace twin {

constexpr int32_t kPrintfOps[] = {tla::OP_printf_0, tla::OP_printf_1, tla::OP_printf_2, tla::OP_printf_3,
                                  tla::OP_printf_4};

/*! \brief Word of a printed value: integers as they are, everything else as the bits of a double. */
template <typename T>
inline int64_t PrintedWord(T value) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<int64_t>(value);
  } else {
    const double wide = static_cast<double>(static_cast<float>(value));
    int64_t bits;
    std::memcpy(&bits, &wide, sizeof(bits));
    return bits;
  }
}

/*! \brief True when the conversions of `format` fit the kinds of the values. */
template <typename... Args>
inline bool FormatFits(const char* format) {
  constexpr bool integral[sizeof...(Args) + 1] = {std::is_integral<Args>::value..., false};
  size_t next = 0;
  for (const char* p = format; *p; ++p) {
    if (*p != '%') continue;
    p += 1 + std::strcspn(p + 1, "diuxXfF%");
    if (!*p) return false;
    if (*p == '%') continue;
    if (next == sizeof...(Args) || integral[next++] == (*p == 'f' || *p == 'F')) return false;
  }
  return next == sizeof...(Args);
}

}  // namespace twin
}  // namespace tla

namespace AscendC {

template <class... Args>
inline void printf(__gm__ const char* fmt, Args&&... args) {
  static_assert(sizeof...(Args) < sizeof(tla::twin::kPrintfOps) / sizeof(int32_t),
                "the twin prints at most 4 values a call");
  constexpr int32_t op = tla::twin::kPrintfOps[sizeof...(Args)];
  if (!tla::twin::FormatFits<std::decay_t<Args>...>(fmt))
    tla_invalid(op, 0, "printf: the format does not fit the values");
  tla::twin::Issue<op>(0, tla_text(fmt), tla::twin::PrintedWord<std::decay_t<Args>>(args)...);
}

template <typename T>
inline void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, TLA_LINE) {
  TLA_REQUIRE(OP_dump_tensor, "DumpTensor", T);
  tla::twin::Issue<tla::OP_dump_tensor>(tla_line, tensor.word(), desc, dumpSize);
}

template <typename T>
inline void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, TLA_LINE) {
  TLA_REQUIRE(OP_dump_tensor, "DumpTensor", T);
  tla::twin::Issue<tla::OP_dump_tensor>(tla_line, tensor.word(), desc, dumpSize);
}

inline void Trap(TLA_LINE) { tla::twin::Issue<tla::OP_trap>(tla_line); }

}  // namespace AscendC
#endif  // TILELANG_ASCEND_TWIN_OUTPUT_H_
