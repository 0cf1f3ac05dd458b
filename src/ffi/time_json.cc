#include "time_json.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/string.h>

#include <string>
#include <vector>

namespace tla {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Map;
using tvm::ffi::String;
using Object = tvm::ffi::json::Object;
using List = tvm::ffi::json::Array;

Object core_json(const LaunchRecord::Core& core, const CoreTime& t) {
  Object busy, assumed, count;
  for (int slot = 0; slot < kNumSlots; ++slot) {
    if ((slots_of_core(core.aic) >> slot & 1) == 0) continue;
    busy.Set(String(slot_name(slot)), t.busy[slot]);
    assumed.Set(String(slot_name(slot)), t.assumed[slot]);
    count.Set(String(slot_name(slot)), t.count[slot]);
  }
  Object o;
  o.Set(String("name"), String(core.name));
  o.Set(String("end_cycles"), t.end);
  o.Set(String("busy_cycles"), busy);
  o.Set(String("assumed_cycles"), assumed);
  o.Set(String("instructions"), count);
  return o;
}

const char* resource_name(uint8_t resource) {
  return resource == kResourceHbm  ? "HBM"
         : resource == kResourceL2 ? "L2"
         : resource == kNoResource ? ""
                                   : slot_name(resource);
}

List stalls_json(const Causes& causes) {
  List out;
  for (const auto& [reason, waited] : causes.stalls) {
    Object o;
    o.Set(String("core"), String(reason.aic ? "AIC" : "AIV"));
    o.Set(String("pipe"), String(slot_name(reason.slot)));
    o.Set(String("kind"), String(wait_name(reason.kind)));
    o.Set(String("resource"), String(resource_name(reason.resource)));
    o.Set(String("line"), static_cast<int64_t>(reason.line));
    o.Set(String("set_line"), static_cast<int64_t>(reason.set_line));
    o.Set(String("cycles"), waited.cycles);
    o.Set(String("count"), waited.count);
    out.push_back(o);
  }
  return out;
}

Object usage_json(const Recording& recording, const Usage& usage) {
  List tensors, ops;
  for (size_t i = 0; i < usage.tensors.size(); ++i) {
    const Recording::Tensor& t = recording.tensors()[i];
    const TensorUsage& u = usage.tensors[i];
    Object o;
    o.Set(String("name"), String(t.name));
    o.Set(String("scratch"), t.scratch);
    o.Set(String("nbytes"), t.bytes);
    o.Set(String("read_bytes"), u.read);
    o.Set(String("written_bytes"), u.written);
    o.Set(String("least_read_bytes"), u.reads.bytes());
    o.Set(String("least_written_bytes"), u.writes.bytes());
    o.Set(String("hbm_read_bytes"), static_cast<int64_t>(u.hbm_read));
    o.Set(String("hbm_written_bytes"), usage.written_back[i]);
    tensors.push_back(o);
  }
  for (int op = 0; op < kNumOps; ++op) {
    const OpUsage& u = usage.ops[static_cast<size_t>(op)];
    if (u.count == 0) continue;
    Object o;
    o.Set(String("op"), String(kOpNames[op]));
    o.Set(String("count"), u.count);
    o.Set(String("gm_bytes"), u.gm_bytes);
    o.Set(String("cycles"), u.cycles);
    o.Set(String("conflict_cycles"), u.conflict);
    o.Set(String("work"), u.work);
    o.Set(String("least_cycles"), u.least);
    ops.push_back(o);
  }
  Object out;
  out.Set(String("tensors"), tensors);
  out.Set(String("ops"), ops);
  return out;
}

int slot_of(const std::string& name) {
  for (int slot = 0; slot < kNumSlots; ++slot) {
    if (name == slot_name(slot)) return slot;
  }
  return -1;
}

Scale read_scale(const Map<String, Any>& m) {
  auto text = [&m](const char* key) { return std::string(m.at(String(key)).cast<String>()); };
  Scale s;
  s.what = text("what");
  s.factor = m.at(String("factor")).cast<double>();
  s.core = text("core") == "AIC" ? 0 : text("core") == "AIV" ? 1 : -1;
  s.slot = slot_of(text("pipe"));
  s.source = slot_of(text("source"));
  s.line = m.at(String("line")).cast<int>();
  return s;
}

Array<Any> replay(const Recording& recording, const Array<Map<String, Any>>& rows, bool analyse, bool trace) {
  std::vector<Scale> scales;
  for (const Map<String, Any>& row : rows) scales.push_back(read_scale(row));
  std::vector<int64_t> sizes;
  for (const Recording::Tensor& t : recording.tensors()) sizes.push_back(t.bytes);
  Usage usage(sizes);
  Poll poll(check_signals);
  Array<Any> times, paths, lines;
  const std::vector<Replayed> found = recording.replay(scales, trace, analyse ? &usage : nullptr, poll);
  for (size_t i = 0; i < found.size(); ++i) {
    Object o = time_json(recording.launches()[i], found[i].time);
    if (analyse) {
      const Causes& causes = *found[i].causes;
      o.Set(String("stalls"), stalls_json(causes));
      o.Set(String("assumed_cycles"), causes.assumed);
      paths.push_back(as_bytes(causes.path));
    }
    times.push_back(tvm::ffi::json::Stringify(o));
    lines.push_back(Array<Any>{as_bytes(found[i].time.events), as_bytes(found[i].syncs)});
  }
  const String used = analyse ? tvm::ffi::json::Stringify(usage_json(recording, usage)) : String("");
  return {times, paths, used, lines};
}

}  // namespace

void check_signals() {
  if (TVMFFIEnvCheckSignals() != 0) throw tvm::ffi::EnvErrorAlreadySet();
}

Object time_json(const LaunchRecord& launch, const TimeReport& t) {
  Object o;
  o.Set(String("cycles"), t.cycles);
  o.Set(String("launch_us"), t.launch_us);
  o.Set(String("simulated_us"), t.us);
  o.Set(String("assumed_share"), t.assumed_share);
  o.Set(String("hbm_read_bytes"), t.hbm_read_bytes);
  o.Set(String("hbm_write_bytes"), t.hbm_write_bytes);
  o.Set(String("l2_read_bytes"), t.l2_read_bytes);
  o.Set(String("l2_write_bytes"), t.l2_write_bytes);
  o.Set(String("stuck"), String(t.stuck));
  List cores;
  for (size_t i = 0; i < t.cores.size(); ++i) cores.push_back(core_json(launch.cores[i], t.cores[i]));
  o.Set(String("cores"), cores);
  return o;
}

tvm::ffi::Function replay_function(std::shared_ptr<const Recording> recording) {
  return tvm::ffi::Function::FromTyped([recording](const Array<Map<String, Any>>& scales, bool analyse, bool trace) {
    return replay(*recording, scales, analyse, trace);
  });
}

}  // namespace tla
