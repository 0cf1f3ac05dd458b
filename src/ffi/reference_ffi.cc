/*! \brief Inner loops of the interpreter of Tile IR (tilelang_ascend/sim/reference_ops.py): the global functions
 * `tilelang_ascend.reference.*`. They share nothing with the instructions of the machine, whose results they judge. */
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstdint>
#include <stdexcept>

#include "isa/simd.h"

namespace tla {
namespace {

using tvm::ffi::TensorView;

/*! \brief c[rows][columns] += a[rows][depth] * b[depth][columns], one product after the other in the order of `depth`.
 */
template <class T>
struct AddProducts {
  static TLA_INLINE void run(T* c, const T* a, const T* b, int64_t rows, int64_t depth, int64_t columns) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < depth; ++k) {
        const T left = a[i * depth + k];
        TLA_IVDEP
        for (int64_t j = 0; j < columns; ++j) c[i * columns + j] += left * b[k * columns + j];
      }
    }
  }
};

template <class T>
void add_products_of(const TensorView& c, const TensorView& a, const TensorView& b) {
  isa::simd_run<AddProducts<T>>(static_cast<T*>(c.data_ptr()), static_cast<const T*>(a.data_ptr()),
                                static_cast<const T*>(b.data_ptr()), a.size(0), a.size(1), b.size(1));
}

/*! \brief Contiguous matrices of float32, or of uint32, whose sums wrap. */
void add_products(TensorView c, TensorView a, TensorView b) {
  for (const TensorView* tensor : {&c, &a, &b}) {
    const bool fits = tensor->ndim() == 2 && tensor->dtype() == c.dtype() && tensor->IsContiguous();
    if (!fits) throw std::runtime_error("a matrix has another layout than the native library expects");
  }
  if (a.size(1) != b.size(0) || c.size(0) != a.size(0) || c.size(1) != b.size(1)) {
    throw std::runtime_error("the shapes of the matrices do not fit");
  }
  if (c.dtype() == DLDataType{kDLFloat, 32, 1}) {
    add_products_of<float>(c, a, b);
  } else if (c.dtype() == DLDataType{kDLUInt, 32, 1}) {
    add_products_of<uint32_t>(c, a, b);
  } else {
    throw std::runtime_error("matrices of this dtype are not multiplied");
  }
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tilelang_ascend.reference.add_products", add_products);
}

}  // namespace tla
