/* Python binding of the analyses: the global functions `tilelang_ascend.analysis.*`. */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "analysis/happens_before.h"
#include "analysis/trace_needs.h"

namespace tla {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Bytes;
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

/*! \brief `values` as they lie in memory: a table of many numbers is no list of objects. */
template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  return Bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/*! \brief {uncovered, unsafe, broken, leftover} of a trace; the tables are those of
 * analysis/dependence/happens_before.py. */
Array<Bytes> run(TensorView events, TensorView needs, TensorView queue_of, TensorView queue_core, int64_t num_keys,
                 bool forked, TensorView left_out, bool without_barriers, bool first_only, bool assume_barriers,
                 int64_t credit) {
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
  return {bytes_of(found.uncovered), bytes_of(found.unsafe), bytes_of(found.broken), bytes_of(found.leftover)};
}

/*! \brief {needs, ends} of a trace; the tables are those of analysis/dependence/trace.py. */
Array<Bytes> needs(TensorView instances, TensorView versions, TensorView iterations, TensorView dependences,
                   TensorView carried, int64_t num_nodes) {
  TnTrace trace;
  trace.instances = data_of<TnInstance>(instances, 2, sizeof(TnInstance) / sizeof(int64_t));
  trace.num_instances = instances.size(0);
  trace.num_forms = versions.size(1);
  trace.versions = static_cast<const int64_t*>(versions.data_ptr());
  trace.max_depth = iterations.size(1);
  trace.iterations = static_cast<const int64_t*>(iterations.data_ptr());
  trace.dependences = data_of<TnDependence>(dependences, 2, sizeof(TnDependence) / sizeof(int64_t));
  trace.num_dependences = dependences.size(0);
  trace.carried = static_cast<const int64_t*>(carried.data_ptr());
  trace.num_nodes = num_nodes;
  const TnNeeds found = trace_needs(trace);
  return {bytes_of(found.needs), bytes_of(found.ends)};
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tilelang_ascend.analysis.happens_before", run)
      .def("tilelang_ascend.analysis.trace_needs", needs);
}

}  // namespace tla
