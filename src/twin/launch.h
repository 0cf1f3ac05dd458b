/*!
 * \file launch.h
 * \brief Starting a kernel: entries for the machine, and the CPU form of a launch.
 */
#ifndef TILELANG_ASCEND_TWIN_LAUNCH_H_
#define TILELANG_ASCEND_TWIN_LAUNCH_H_

#include <utility>

#include "twin/types.h"

namespace tla {
namespace twin {

/*! \brief Runs all cores of a launch: kernel name, number of blocks, arguments (docs/ir.md section 4). Returns 0 or an
 * error. */
using Launcher = int32_t (*)(const char* kernel, uint32_t block_dim, const int64_t* args, int32_t n);

/*! \brief The launcher of this shared object; hidden, so that objects do not share it. */
__attribute__((visibility("hidden"))) inline Launcher& CurrentLauncher() {
  static Launcher launcher = nullptr;
  return launcher;
}

/*! \brief An argument as one 64-bit word and back. */
template <typename T>
inline int64_t ToWord(T value) {
  if constexpr (std::is_pointer<T>::value) {
    return reinterpret_cast<int64_t>(value);
  } else if constexpr (std::is_same<T, double>::value) {
    return tla::isa::bit_cast<int64_t>(value);
  } else {
    return ScalarBits<T>(value);
  }
}

template <typename T>
inline T FromWord(int64_t word) {
  if constexpr (std::is_pointer<T>::value) {
    return reinterpret_cast<T>(word);
  } else if constexpr (std::is_same<T, double>::value) {
    return tla::isa::bit_cast<double>(word);
  } else {
    return ScalarValue<T>(word);
  }
}

template <typename... P, std::size_t... I>
inline void InvokeWith(void (*kernel)(P...), const int64_t* args, int32_t n, std::index_sequence<I...>) {
  // A mix kernel has one parameter more than the program: the address of the synchronisation block.
  kernel(FromWord<P>(static_cast<int32_t>(I) < n ? args[I] : 0)...);
}

/*! \brief Call a kernel with the argument words of a program. */
template <typename... P>
inline void Invoke(void (*kernel)(P...), const int64_t* args, int32_t n) {
  InvokeWith(kernel, args, n, std::index_sequence_for<P...>());
}

/*! \brief Launch through the registered launcher, converting the arguments to the parameter types first. */
template <typename... P, typename... A>
inline int32_t Launch(const char* name, void (*)(P...), uint32_t block_dim, A... a) {
  static_assert(sizeof...(P) == sizeof...(A), "the launch passes a wrong number of arguments");
  const int64_t args[sizeof...(P) + 1] = {ToWord<P>(static_cast<P>(a))..., 0};
  if (CurrentLauncher() == nullptr) return -1;
  return CurrentLauncher()(name, block_dim, args, static_cast<int32_t>(sizeof...(P)));
}

}  // namespace twin
}  // namespace tla

namespace AscendC {
/*! \brief Which cores a build for the CPU imitates. The machine knows from the kernel's type. */
inline void SetKernelMode(KernelMode) {}
}  // namespace AscendC

#define ICPU_RUN_KF(kernel, blockDim, ...) tla::twin::Launch(#kernel, kernel, blockDim, ##__VA_ARGS__)

/*! \brief Export `kernel` for the machine. */
#define TLA_TWIN_EXPORT(kernel)                                                                          \
  extern "C" void tla_twin_entry(const int64_t* args, int32_t n) { tla::twin::Invoke(kernel, args, n); } \
  extern "C" void tla_twin_set_launcher(tla::twin::Launcher launcher) { tla::twin::CurrentLauncher() = launcher; }

#endif  // TILELANG_ASCEND_TWIN_LAUNCH_H_
