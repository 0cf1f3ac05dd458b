/* Results of the time model as JSON, and replays at other prices as a function for Python. */
#ifndef TLA_FFI_TIME_JSON_H_
#define TLA_FFI_TIME_JSON_H_

#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/function.h>

#include <memory>

#include "recording.h"

namespace tla {

template <typename T>
tvm::ffi::Bytes as_bytes(const std::vector<T>& v) {
  return tvm::ffi::Bytes(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
}

/*! \brief Times of one launch. */
tvm::ffi::json::Object time_json(const LaunchRecord& launch, const TimeReport& t);

/*!
 * \brief Function (scales, analyse, trace) -> [times, paths, usage, lines]: a JSON text for each launch, with its
 * stalls when `analyse`; then also the critical path of each as bytes of `PathStep`, and the usage of the whole call as
 * JSON text. With `trace` the time line of each launch is there as bytes of `TraceEvent` and of `SyncItem`. A scale is
 * a map with the members of `Scale`.
 */
tvm::ffi::Function replay_function(std::shared_ptr<const Recording> recording);

/*! \brief Let Python handle the signals that have arrived; throws what its handlers raise. */
void check_signals();

}  // namespace tla

#endif  // TLA_FFI_TIME_JSON_H_
