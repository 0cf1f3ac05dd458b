/* Python binding of the machine: the global functions `tilelang_ascend.machine.*`. */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.h"
#include "recording.h"
#include "texts.h"
#include "time_json.h"

namespace tla {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::Bytes;
using tvm::ffi::Function;
using tvm::ffi::Map;
using tvm::ffi::String;
using Object = tvm::ffi::json::Object;
using List = tvm::ffi::json::Array;

template <typename T>
T option(const Map<String, Any>& options, const char* key) {
  auto it = options.find(String(key));
  if (it == options.end()) throw std::runtime_error(std::string("option '") + key + "' is missing");
  return (*it).second.cast<T>();
}

uint32_t check_mask(const Array<String>& names) {
  uint32_t mask = 0;
  for (const String& name : names) {
    uint32_t bit = 0;
    for (const Check c : {kMemcheck, kInitcheck, kRacecheck, kSynccheck}) {
      if (std::string(name) == check_name(c)) bit = c;
    }
    if (bit == 0) throw std::runtime_error("there is no check named '" + std::string(name) + "'");
    mask |= bit;
  }
  return mask;
}

MachineOptions read_options(const Map<String, Any>& o) {
  MachineOptions m;
  m.values = option<bool>(o, "values");
  m.checks = check_mask(option<Array<String>>(o, "checks"));
  m.adversarial = option<bool>(o, "adversarial");
  m.seed = static_cast<uint64_t>(option<int64_t>(o, "seed"));
  m.time = option<bool>(o, "time");
  m.trace = option<bool>(o, "trace");
  m.record_stream = option<bool>(o, "record_stream");
  m.record_tiles = option<bool>(o, "record_tiles");
  m.count_writes = option<bool>(o, "count_writes");
  m.max_reports = static_cast<int32_t>(option<int64_t>(o, "max_reports"));
  m.max_instructions = option<int64_t>(o, "max_instructions");
  m.every_step = option<bool>(o, "every_step");
  m.warm = option<bool>(o, "warm");
  m.keep_record = option<bool>(o, "keep_record");
  return m;
}

KernelType kernel_type(const std::string& name) {
  if (name == "aic_only") return KernelType::kAicOnly;
  if (name == "aiv_only") return KernelType::kAivOnly;
  if (name == "mix_1_2") return KernelType::kMix;
  throw std::runtime_error("there is no kernel type '" + name + "'");
}

std::vector<GmTensor> read_tensors(const Array<Array<Any>>& rows) {
  std::vector<GmTensor> tensors;
  for (const Array<Any>& row : rows) {
    GmTensor t;
    t.address = row[0].cast<int64_t>();
    t.bytes = row[1].cast<int64_t>();
    t.name = row[2].cast<String>();
    t.writable = row[3].cast<bool>();
    t.scratch = row[4].cast<bool>();
    t.fresh = row[5].cast<bool>();
    t.bypass_l2 = row[6].cast<bool>();
    t.index = static_cast<int32_t>(tensors.size());
    tensors.push_back(std::move(t));
  }
  return tensors;
}

/*! \brief Issue a recorded stream: words op, line, n, then n arguments, again and again. */
void replay_stream(const Bytes& bytes) {
  const auto* words = reinterpret_cast<const int64_t*>(bytes.data());
  const size_t n = bytes.size() / sizeof(int64_t);
  for (size_t i = 0; i + 3 <= n;) {
    const auto nargs = static_cast<int32_t>(words[i + 2]);
    if (nargs < 0 || nargs > kMaxArgs || i + 3 + static_cast<size_t>(nargs) > n) {
      throw std::runtime_error("the recorded stream is damaged");
    }
    Machine::current()->issue(static_cast<int32_t>(words[i]), static_cast<int32_t>(words[i + 1]), nargs, words + i + 3);
    i += 3 + static_cast<size_t>(nargs);
  }
}

/*! \brief What a core runs: a function, the address of a C function, or recorded streams (one, or one a core). */
class Entry {
 public:
  Entry(const Any& value, std::vector<int64_t> args) : args_(std::move(args)) {
    if (auto function = value.try_cast<Function>()) {
      function_ = *function;
      kind_ = kFunction;
    } else if (auto address = value.try_cast<int64_t>()) {
      c_entry_ = reinterpret_cast<CEntry>(*address);
      kind_ = kCEntry;
    } else if (auto streams = value.try_cast<Array<Bytes>>()) {
      for (const Bytes& b : *streams) streams_.push_back(b);
      kind_ = kStreams;
    }
  }

  Program program(size_t nth_core) const {
    switch (kind_) {
      case kFunction:
        return [this] { call_function(); };
      case kCEntry:
        return [this] { c_entry_(args_.data(), static_cast<int32_t>(args_.size())); };
      case kStreams:
        return [this, nth_core] { replay_stream(streams_.at(streams_.size() == 1 ? 0 : nth_core)); };
      case kNone:
        break;
    }
    throw std::runtime_error("the kernel has no program for this core type");
  }

 private:
  using CEntry = void (*)(const int64_t*, int32_t);
  enum Kind { kNone, kFunction, kCEntry, kStreams };

  void call_function() const {
    std::vector<AnyView> views;
    for (int64_t a : args_) views.emplace_back(a);
    Any result;
    function_.CallPacked(views.data(), static_cast<int32_t>(views.size()), &result);
  }

  Kind kind_ = kNone;
  Function function_;
  CEntry c_entry_ = nullptr;
  std::vector<Bytes> streams_;
  std::vector<int64_t> args_;
};

Object site_json(const Machine& m, const Site& s) {
  Object o;
  o.Set(String("op"), String(s.op >= 0 ? kOpNames[s.op] : ""));
  o.Set(String("line"), static_cast<int64_t>(s.line));
  o.Set(String("core"), String(s.core >= 0 ? m.core_name(s.core) : ""));
  o.Set(String("pipe"), String(s.slot >= 0 ? slot_name(s.slot) : ""));
  return o;
}

List hazards_json(const Machine& m) {
  static const char* const kSpaces[kNumSpaces] = {"GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB"};
  List out;
  for (const Hazard& h : m.hazards.reports()) {
    Object o;
    o.Set(String("check"), String(check_name(h.check)));
    o.Set(String("message"), String(h.message));
    o.Set(String("first"), site_json(m, h.first));
    o.Set(String("second"), h.second.core >= 0 ? Any(site_json(m, h.second)) : Any(nullptr));
    o.Set(String("space"), String(h.space >= 0 && h.space < kNumSpaces ? kSpaces[h.space] : ""));
    o.Set(String("lo"), h.lo);
    o.Set(String("hi"), h.hi);
    o.Set(String("tensor"), String(h.tensor));
    out.push_back(o);
  }
  return out;
}

/*! \brief Rows [core, text, bytes lost] of the cores that printed, block by block. */
List output_json(const Machine& m) {
  List out;
  for (const auto& core : m.cores) {
    if (core->output.empty()) continue;
    List row;
    row.push_back(String(core->name()));
    row.push_back(String(core->output));
    row.push_back(core->lost_output);
    out.push_back(row);
  }
  return out;
}

List unwritten_json(const Machine& m) {
  List out;
  for (const UnwrittenRange& r : m.gm.unwritten()) {
    Object o;
    o.Set(String("tensor"), String(r.tensor));
    o.Set(String("lo"), r.lo);
    o.Set(String("hi"), r.hi);
    o.Set(String("nbytes"), r.bytes);
    out.push_back(o);
  }
  return out;
}

/*! \brief What a launch cannot follow: one that never ended, or that stopped itself. */
bool ends_the_call(const Machine& m) {
  const auto& found = m.hazards.reports();
  return !m.error().empty() || std::any_of(found.begin(), found.end(),
                                           [](const Hazard& h) { return h.check == kDeadlock || h.check == kTrap; });
}

/*! \brief Run a machine to its end. `aic`, `aiv`: entry of the core type, or None. */
void run_machine(Machine& m, const Any& aic, const Any& aiv, const Array<int64_t>& args) {
  const std::vector<int64_t> values(args.begin(), args.end());
  const Entry entry_aic(aic, values), entry_aiv(aiv, values);
  m.run([&](const Core& core) {
    const bool mix_aiv = m.type == KernelType::kMix && !core.aic;
    const auto nth = static_cast<size_t>(mix_aiv ? 2 * core.block + core.sub_block : core.block);
    return (core.aic ? entry_aic : entry_aiv).program(nth);
  });
  m.gm.poison_unwritten();
}

/*! \brief What a launch did, but for its time. */
struct LaunchResult {
  Object report;
  Array<Any> streams;  //!< one Bytes of int64 for each core
  Array<Any> writes;   //!< one Bytes for each tensor, empty for scratch
};

LaunchResult result_of(Machine& m) {
  Object report;
  report.Set(String("error"), String(m.error()));
  report.Set(String("hazards"), hazards_json(m));
  report.Set(String("suppressed"), m.hazards.suppressed());
  report.Set(String("unwritten"), unwritten_json(m));
  Array<Any> streams;
  List names;
  for (const auto& core : m.cores) {
    names.push_back(String(core->name()));
    if (m.options.record_stream) streams.push_back(as_bytes(core->record.stream));
  }
  Array<Any> writes;
  if (m.options.count_writes) {
    std::vector<Bytes> of(m.gm.size());
    for (const GmTensor& t : m.gm.tensors()) of[static_cast<size_t>(t.index)] = as_bytes(t.writes);
    for (const Bytes& counts : of) writes.push_back(counts);
  }
  report.Set(String("cores"), names);
  report.Set(String("output"), output_json(m));
  return {report, streams, writes};
}

/*! \brief The time line of a launch; empty unless asked for. */
struct TimeLine {
  Bytes events;  //!< of TraceEvent
  Bytes syncs;   //!< of SyncItem
};

/*! \brief Replay the launches for their times. Returns the time line of each. */
std::vector<TimeLine> add_times(const Recording& recording, std::vector<LaunchResult>& results, bool trace) {
  std::vector<TimeLine> lines(results.size());
  Poll poll(check_signals);
  const std::vector<Replayed> times = recording.replay({}, trace, nullptr, poll);
  for (size_t i = 0; i < times.size(); ++i) {
    results[i].report.Set(String("time"), time_json(recording.launches()[i], times[i].time));
    lines[i] = {as_bytes(times[i].time.events), as_bytes(times[i].syncs)};
  }
  return lines;
}

/*!
 * \brief Run launches one after the other on the same tensors; what follows a deadlock, a trap or an error is not run.
 * Returns [what each did, replay]: rows of [report as JSON text, streams, trace events, numbers of writes, flags of
 * the time line], and `replay_function`, or None unless the options ask for it.
 * \param launches Rows of [kernel type, number of blocks, entry of AIC or None, entry of AIV or None, arguments].
 * \param gm Rows of [address, bytes, name, writable, scratch, fresh, bypass_l2].
 */
Array<Any> run(const String& chip, const Array<Array<Any>>& launches, const Array<Array<Any>>& gm,
               const Map<String, Any>& options) {
  const ChipParams params = parse_chip(chip);
  const MachineOptions chosen = read_options(options);
  std::vector<GmTensor> tensors = read_tensors(gm);
  // Times come last: what L2 holds at the start may be what these very launches leave in it.
  std::shared_ptr<Recording> recording;
  std::vector<LaunchResult> results;
  for (const Array<Any>& row : launches) {
    Machine m(params, chosen, kernel_type(row[0].cast<String>()), row[1].cast<int>(), std::move(tensors),
              Poll(check_signals));
    if (recording == nullptr) recording = std::make_shared<Recording>(params, m.gm.tensors());
    run_machine(m, row[2], row[3], row[4].cast<Array<int64_t>>());
    results.push_back(result_of(m));
    if (chosen.time && m.error().empty()) recording->take(m);
    if (ends_the_call(m)) break;
    tensors = m.gm.release();
  }
  std::vector<TimeLine> lines(results.size());
  if (chosen.time) {
    if (chosen.warm) recording->warm();
    lines = add_times(*recording, results, chosen.trace);
  }
  Array<Any> out;
  for (size_t i = 0; i < results.size(); ++i) {
    const LaunchResult& r = results[i];
    out.push_back(
        Array<Any>{tvm::ffi::json::Stringify(r.report), r.streams, lines[i].events, r.writes, lines[i].syncs});
  }
  return {out, chosen.keep_record ? Any(replay_function(recording)) : Any(nullptr)};
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tilelang_ascend.machine.run", run)
      .def("tilelang_ascend.machine.table_hash",
           [] { return std::to_string(static_cast<unsigned long long>(kTableHash)); })
      .def("tilelang_ascend.machine.text_code", [](const String& text) { return text_code(text.c_str()); })
      .def("tilelang_ascend.machine.op_names", [] {
        Array<String> names;
        for (const char* n : kOpNames) names.push_back(String(n));
        return names;
      });
}

}  // namespace
}  // namespace tla
