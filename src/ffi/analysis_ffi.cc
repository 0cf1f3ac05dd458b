/* Python binding of the analyses: the global functions `tilelang_ascend.analysis.*`. */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "analysis/happens_before.h"

namespace tla {
namespace {

using tvm::ffi::Array;
using tvm::ffi::TensorView;

/*! \brief Data of a contiguous int64 (or uint8) tensor of `rank` dimensions whose last one is `width`. */
template <typename T>
const T* data_of(const TensorView& tensor, int rank, int64_t width) {
  const bool fits = tensor.ndim() == rank && tensor.dtype().bits % 8 == 0 &&
                    (rank == 1 || tensor.size(rank - 1) == width) &&
                    sizeof(T) == static_cast<size_t>(width) * tensor.dtype().bits / 8 && tensor.IsContiguous();
  if (!fits) throw std::runtime_error("a table of a trace has another layout than the native library expects");
  return static_cast<const T*>(tensor.data_ptr());
}

std::vector<int64_t> vector_of(const TensorView& tensor) {
  const int64_t* data = data_of<int64_t>(tensor, 1, 1);
  return {data, data + tensor.size(0)};
}

Array<int64_t> array_of(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

/*! \brief {uncovered, unsafe, broken, leftover} of a trace; the tables are those of
 * analysis/dependence/happens_before.py. */
Array<Array<int64_t>> run(TensorView events, TensorView needs, TensorView queue_of, TensorView queue_core,
                          int64_t num_keys, bool forked, TensorView left_out, bool without_barriers, bool first_only,
                          bool assume_barriers, int64_t credit) {
  HbTrace trace;
  trace.events = data_of<HbEvent>(events, 2, sizeof(HbEvent) / sizeof(int64_t));
  trace.num_events = events.size(0);
  trace.needs = data_of<HbNeed>(needs, 2, sizeof(HbNeed) / sizeof(int64_t));
  trace.queue_of = vector_of(queue_of);
  trace.queue_core = vector_of(queue_core);
  trace.num_keys = num_keys;
  trace.forked = forked;
  const HbOptions options{data_of<uint8_t>(left_out, 1, 1), without_barriers, first_only, assume_barriers, credit};
  const HbFindings found = happens_before(trace, options);
  return {array_of(found.uncovered), array_of(found.unsafe), array_of(found.broken), array_of(found.leftover)};
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() { tvm::ffi::reflection::GlobalDef().def("tilelang_ascend.analysis.happens_before", run); }

}  // namespace tla
