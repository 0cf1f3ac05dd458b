/*!
 * \file mmad_kernel.h
 * \brief Inner loops of mmad on unpacked operands. A block of rows times one panel of 16 columns stays in registers.
 */
#ifndef TILELANG_ASCEND_ISA_MMAD_KERNEL_H_
#define TILELANG_ASCEND_ISA_MMAD_KERNEL_H_

#include "cube.h"
#include "simd.h"

namespace tla {
namespace isa {

constexpr int kPanel = kFractalSide;

/*! \brief `value` of an input element in the type the kernel computes in. */
template <class C, class T>
TLA_INLINE C unpacked(T v) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<C>(static_cast<int32_t>(v));
  } else {
    return load(v);
  }
}

/*! \brief Table of all values of an 8-bit float. */
template <class T>
struct Float8Table {
  float value[256];
  Float8Table() {
    for (int i = 0; i < 256; ++i) value[i] = to_float(T{static_cast<uint8_t>(i)});
  }
  static const float* get() {
    static const Float8Table table;
    return table.value;
  }
};

template <class T>
constexpr bool kIsFloat8 = std::is_same<T, Float8E4M3>::value || std::is_same<T, Float8E5M2>::value;

/*! \brief 16 rows of C0 elements of a fractal -> rows `stride` apart. */
template <class T, class C>
struct UnpackRows {
  static TLA_INLINE void run(C* to, int64_t stride, const T* fractal) {
    constexpr int c0 = kBlockBytes / static_cast<int>(sizeof(T));
    for (int r = 0; r < kFractalSide; ++r) {
      if constexpr (kIsFloat8<T>) {
        const float* table = Float8Table<T>::get();
        for (int c = 0; c < c0; ++c) to[r * stride + c] = table[fractal[r * c0 + c].bits];
      } else {
        for (int c = 0; c < c0; ++c) to[r * stride + c] = unpacked<C>(fractal[r * c0 + c]);
      }
    }
  }
};

/*! \brief 16 columns (N) of C0 elements (K) -> C0 rows of 16 columns. */
template <class T, class C>
struct UnpackColumns {
  static TLA_INLINE void run(C* to, const T* fractal) {
    constexpr int c0 = kBlockBytes / static_cast<int>(sizeof(T));
    C tile[kFractalSide * c0];
    UnpackRows<T, C>::run(tile, c0, fractal);
    for (int k = 0; k < c0; ++k) {
      for (int n = 0; n < kPanel; ++n) to[k * kPanel + n] = tile[n * c0 + k];
    }
  }
};

typedef float Float16Lanes __attribute__((vector_size(64)));
typedef uint32_t Int16Lanes __attribute__((vector_size(64)));
typedef double Double8Lanes __attribute__((vector_size(64)));
typedef float Float8Lanes __attribute__((vector_size(32)));

/*! \brief c[rows][16] (+)= a[rows][depth] * b[depth][16] for `Rows` rows, k ascending. */
template <class V, class C, int kRows>
TLA_INLINE void block_multiply(C* c, const C* a, const C* b, int64_t depth, bool init) {
  V acc[kRows];
  for (int r = 0; r < kRows; ++r) {
    acc[r] = V{};
    if (!init) __builtin_memcpy(&acc[r], c + r * kPanel, sizeof(V));
  }
  for (int64_t k = 0; k < depth; ++k) {
    V column;
    __builtin_memcpy(&column, b + k * kPanel, sizeof(V));
    for (int r = 0; r < kRows; ++r) acc[r] += a[r * depth + k] * column;
  }
  for (int r = 0; r < kRows; ++r) __builtin_memcpy(c + r * kPanel, &acc[r], sizeof(V));
}

template <class V, class C>
struct PanelKernel {
  static TLA_INLINE void run(C* c, const C* a, const C* b, int64_t rows, int64_t depth, bool init) {
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) block_multiply<V, C, 8>(c + r * kPanel, a + r * depth, b, depth, init);
    for (; r + 4 <= rows; r += 4) block_multiply<V, C, 4>(c + r * kPanel, a + r * depth, b, depth, init);
    for (; r < rows; ++r) block_multiply<V, C, 1>(c + r * kPanel, a + r * depth, b, depth, init);
  }
};

using FloatKernel = PanelKernel<Float16Lanes, float>;
using IntKernel = PanelKernel<Int16Lanes, uint32_t>;

/*! \brief float32 inputs: the product is exact in double, the sum is rounded to float after every step. */
struct DoubleKernel {
  static TLA_INLINE void run(float* c, const float* a, const float* b, int64_t rows, int64_t depth, bool init) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int half = 0; half < kPanel; half += 8) {
        Float8Lanes acc = {};
        if (!init) __builtin_memcpy(&acc, c + r * kPanel + half, sizeof(acc));
        for (int64_t k = 0; k < depth; ++k) {
          Float8Lanes column;
          __builtin_memcpy(&column, b + k * kPanel + half, sizeof(column));
          const double left = a[r * depth + k];
          const Double8Lanes product = left * __builtin_convertvector(column, Double8Lanes);
          acc = __builtin_convertvector(product + __builtin_convertvector(acc, Double8Lanes), Float8Lanes);
        }
        __builtin_memcpy(c + r * kPanel + half, &acc, sizeof(acc));
      }
    }
  }
};

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_MMAD_KERNEL_H_
