/*!
 * \file ascendcl.cc
 * \brief Stands in for the libraries of CANN's runtime: the C interface of ACL, memory of the host as that of a device, and kernels on the
 * machine model. What `stand_in_` functions add is for tests; nothing but tests calls them.
 *
 * As strict as the real one may be: work starts when its stream is waited for, device memory is poisoned, addresses must be of the side a
 * copy names, a thread must have set a device.
 */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int32_t kInvalid = 107000, kNoDevice = 107001, kNoContext = 107002, kContext = 107003,
                  kOutOfMemory = 207001, kException = 507015,
                  kTimeout = 507046, kRepeated = 100002;

using Entry = void (*)(const int64_t*, int32_t);
using Machine = int32_t (*)(const char* kind, uint32_t blocks, Entry entry, const int64_t* words, int32_t n,
                            const int64_t* regions, int32_t count, float* microseconds, char* why);

struct Event {
  bool passed = false;
  double at = 0;
};

struct Task {
  Event* event = nullptr;
  std::string kind;
  uint32_t blocks = 0;
  Entry entry = nullptr;
  std::vector<int64_t> words;
};

struct Stream {
  int32_t device;
  std::vector<Task> tasks;
};

struct State {
  Machine machine = nullptr;
  std::map<uint8_t*, size_t> memory;
  size_t limit = SIZE_MAX, used = 0;
  std::map<std::string, std::pair<int32_t, std::string>> faults;
  std::map<std::string, int32_t> calls;
  std::map<int32_t, int32_t> worked;
  std::string message, soc = "Ascend910B3";
  uint32_t devices = 1;
  bool initialised = false, hangs = false;
  double clock = 0;
} state;
thread_local int32_t device = -1;

bool OnDevice(const void* address, size_t bytes) {
  auto after = state.memory.upper_bound(static_cast<uint8_t*>(const_cast<void*>(address)));
  if (after == state.memory.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return static_cast<const uint8_t*>(address) + bytes <= start + size;
}

int32_t Say(int32_t code, const std::string& message) {
  state.message = message;
  return code;
}

int32_t Enter(const char* name) {
  ++state.calls[name];
  auto fault = state.faults.find(name);
  if (fault == state.faults.end()) return 0;
  const auto [code, message] = fault->second;
  state.faults.erase(fault);
  return Say(code, message);
}

int32_t Run(const Task& task) {
  if (task.event != nullptr) {
    *task.event = {true, state.clock};
    return 0;
  }
  std::vector<int64_t> regions;
  for (const auto& [start, size] : state.memory) {
    regions.push_back(reinterpret_cast<int64_t>(start));
    regions.push_back(static_cast<int64_t>(size));
  }
  float microseconds = 0;
  char why[512] = "";
  const int32_t failed =
      state.machine(task.kind.c_str(), task.blocks, task.entry, task.words.data(), static_cast<int32_t>(task.words.size()),
                    regions.data(), static_cast<int32_t>(regions.size()), &microseconds, why);
  state.clock += microseconds;
  return failed == 2 ? Say(kTimeout, why) : failed ? Say(kException, why) : 0;
}

}  // namespace

#define ENTER(context)                            \
  if (int32_t fault = Enter(__func__)) return fault; \
  if (context && device < 0) return Say(kNoContext, "no device was set in this thread")

extern "C" {

// ---- ACL

const char* aclGetRecentErrMsg() {
  static std::string told;
  told.swap(state.message);
  state.message.clear();
  return told.empty() ? nullptr : told.c_str();
}

int32_t aclInit(const char*) {
  ENTER(false);
  if (state.initialised) return kRepeated;
  state.initialised = true;
  return 0;
}

int32_t aclrtGetDeviceCount(uint32_t* count) {
  ENTER(false);
  *count = state.devices;
  return 0;
}

int32_t aclrtSetDevice(int32_t number) {
  ENTER(false);
  if (number < 0 || number >= static_cast<int32_t>(state.devices)) return Say(kNoDevice, "device number out of range");
  device = number;
  return 0;
}

const char* aclrtGetSocName() { return state.soc.c_str(); }

int32_t aclrtMalloc(void** place, size_t bytes, int32_t) {
  ENTER(true);
  if (bytes == 0) return Say(kInvalid, "size is 0");
  if (state.used + bytes > state.limit) return Say(kOutOfMemory, "alloc device memory failed, size=" + std::to_string(bytes));
  const size_t room = (bytes + 1023) / 512 * 512;
  auto* start = static_cast<uint8_t*>(std::aligned_alloc(512, room));
  std::memset(start, 0xA5, room);
  state.memory[start] = bytes;
  state.used += bytes;
  *place = start;
  return 0;
}

int32_t aclrtFree(void* place) {
  ENTER(true);
  auto found = state.memory.find(static_cast<uint8_t*>(place));
  if (found == state.memory.end()) return Say(kInvalid, "not an address aclrtMalloc gave");
  state.used -= found->second;
  std::free(found->first);
  state.memory.erase(found);
  return 0;
}

int32_t aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int32_t kind) {
  ENTER(true);
  if (kind != 1 && kind != 2) return Say(kInvalid, "kind of copy");
  if (bytes > room || OnDevice(to, bytes) != (kind == 1) || OnDevice(from, bytes) != (kind == 2)) {
    return Say(kInvalid, "an address is not of the side the kind names");
  }
  std::memcpy(to, from, bytes);
  return 0;
}

int32_t aclrtCreateStream(void** stream) {
  ENTER(true);
  *stream = new Stream{device, {}};
  return 0;
}

int32_t aclrtDestroyStream(void* stream) {
  ENTER(true);
  delete static_cast<Stream*>(stream);
  return 0;
}

#ifdef WITHOUT_TIMEOUT
#define aclrtSynchronizeStreamWithTimeout aclrtSynchronizeStreamOtherwise
#endif
int32_t aclrtSynchronizeStreamWithTimeout(void* stream, int32_t milliseconds) {
  ENTER(true);
  if (milliseconds < -1) return Say(kInvalid, "timeout");
  if (static_cast<Stream*>(stream)->device != device) return Say(kContext, "the stream is of another device");
  auto tasks = std::move(static_cast<Stream*>(stream)->tasks);
  static_cast<Stream*>(stream)->tasks.clear();
  if (state.hangs) {
    state.hangs = false;
    return Say(kTimeout, "stream synchronize timeout, timeout=" + std::to_string(milliseconds) + "ms");
  }
  for (const Task& task : tasks) {
    state.worked[device] += task.event == nullptr;
    if (const int32_t failed = Run(task)) return failed;
  }
  return 0;
}

int32_t aclrtCreateEvent(void** event) {
  ENTER(true);
  *event = new Event;
  return 0;
}

int32_t aclrtDestroyEvent(void* event) {
  ENTER(true);
  delete static_cast<Event*>(event);
  return 0;
}

int32_t aclrtRecordEvent(void* event, void* stream) {
  ENTER(true);
  static_cast<Stream*>(stream)->tasks.push_back({static_cast<Event*>(event), "", 0, nullptr, {}});
  return 0;
}

int32_t aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
  ENTER(true);
  const auto *first = static_cast<Event*>(start), *last = static_cast<Event*>(end);
  if (!first->passed || !last->passed) return Say(kInvalid, "an event has not happened yet");
  *milliseconds = static_cast<float>((last->at - first->at) * 1e-3);
  return 0;
}

// ---- the runtime below it, which compiled kernels call

int32_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length) {
  ENTER(true);
  *address = 0x1000;
  *length = 64;
  return 0;
}

void stand_in_launch(const char* kind, uint32_t blocks, void* stream, Entry entry, const int64_t* words, int32_t n) {
  static_cast<Stream*>(stream)->tasks.push_back({nullptr, kind, blocks, entry, {words, words + n}});
}

// ---- for tests

/*! \brief As after loading, with this machine to run kernels on. */
void stand_in_reset(Machine machine) {
  for (const auto& [start, size] : state.memory) std::free(start);
  const bool initialised = state.initialised;
  state = State();
  state.initialised = initialised;
  state.machine = machine;
}
/*! \brief The next call of a function fails. */
void stand_in_fail(const char* function, int32_t code, const char* message) { state.faults[function] = {code, message}; }
/*! \brief The next work that is waited for does not end. */
void stand_in_hang() { state.hangs = true; }
void stand_in_memory(size_t bytes) { state.limit = bytes; }
void stand_in_devices(uint32_t count, const char* soc) {
  state.devices = count;
  state.soc = soc;
}
int32_t stand_in_calls(const char* function) { return state.calls[function]; }
int32_t stand_in_worked_on(int32_t number) { return state.worked[number]; }
int32_t stand_in_live() { return static_cast<int32_t>(state.memory.size()); }
}
