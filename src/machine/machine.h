/*
 * The machine: all cores of one launch, global memory, and the schedule. Its state is all in the object.
 */
#ifndef TLA_MACHINE_MACHINE_H_
#define TLA_MACHINE_MACHINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "chip.h"
#include "core.h"
#include "gm.h"
#include "hazard.h"
#include "options.h"
#include "poll.h"
#include "recorder.h"

namespace tla {

enum class KernelType : uint8_t { kAicOnly, kAivOnly, kMix };

/*! \brief The program of one core; issues through `Core::issue` of the current core. May throw. */
using Program = std::function<void()>;

class Machine {
 public:
  Machine(ChipParams chip, MachineOptions options, KernelType type, int block_dim, std::vector<GmTensor> tensors,
          Poll poll = Poll());
  ~Machine();

  /*! \brief Run `program(core)` on every core to its end, to a deadlock or to an error. */
  void run(const std::function<Program(const Core&)>& program);

  /*! \brief Message of the first exception a program threw, empty when none did. */
  const std::string& error() const { return error_; }

  // ---- used by the cores
  /*! \brief A cross-core set by `core` completes: deliver to whoever now has all its partners. */
  void cross_set(Core& core, int mode, int id, const SharedClock& clock, Site site);
  void report_race(const Access& a, const Instr& instr, const Accessor& who, const Conflict& c, const GmTensor* tensor);
  /*! \brief A number above zero for a tile, the same one for the same place and name. */
  uint16_t id_of(const Tile& tile);
  size_t num_agents() const { return cores.size() * kSlotsPerCore; }
  /*! \brief No core goes on after the running one yields. */
  void abort() { aborted_ = true; }
  /*! \brief Ask whether the run shall go on, if it is time to; called in programs. Returns only when it shall. */
  void breathe(Core& core) {
    if (poll.due()) pause(core);
  }
  /*! \brief Leave the running fiber; returns when the machine resumes it. */
  void yield(Core& core);
  /*! \brief Text for a memory range: "UB[0x100, 0x140)" or "tensor 'A' [0, 64)". */
  std::string range_text(int space, int64_t lo, int64_t hi, const GmTensor* tensor) const;
  std::string core_name(int index) const { return cores[static_cast<size_t>(index)]->name(); }

  const ChipParams chip;
  const MachineOptions options;
  const KernelType type;
  const int block_dim;
  HazardLog hazards;
  GmMap gm;
  Interner interner;
  ShapePool shapes;
  KnownItems known_items;
  std::vector<std::unique_ptr<Core>> cores;
  std::mt19937_64 random;
  Poll poll;

  /*! \brief The core whose program runs on this thread, or null. */
  static Core* current();

 private:
  struct Barrier {                                                    // cores that meet at a cross-core flag
    std::vector<Core*> members;                                       // whose sets are counted
    std::vector<Core*> receivers;                                     // who gets a count when all members have set
    std::vector<std::vector<std::pair<SharedClock, Site>>> arrivals;  // [member]: sets not yet matched
  };

  void make_cores();
  void start(Core& core, const std::function<Program(const Core&)>& program);
  void resume(Core& core);
  void pause(Core& core);
  bool land_for_waiters();
  bool finished() const;
  void report_deadlock();
  void report_unmatched_cross_flags();
  Barrier& barrier(Core& core, int mode, int id);

  std::map<std::tuple<uint8_t, int64_t, int64_t, int64_t, std::string>, uint16_t> tile_ids_;
  std::vector<CoreMemory> memory_;
  std::vector<std::unique_ptr<uint8_t[]>> storage_;
  std::vector<std::pair<uint64_t, Barrier>> barriers_;
  std::string error_;
  bool aborted_ = false;
  bool paused_ = false;
};

}  // namespace tla

#endif  // TLA_MACHINE_MACHINE_H_
