/*
 * Why the replay's instructions began when they did: for every pipe what it waited for, and the critical path.
 *
 * The time of a pipe is divided without a rest: it executes, or it waits for one of the reasons of `Wait`. Every moment
 * the replay computes carries the number of the node that decided it, so that following these numbers from the end of
 * the last core back to time zero gives the critical path. Only made when asked for.
 */
#ifndef TLA_MACHINE_CAUSES_H_
#define TLA_MACHINE_CAUSES_H_

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "chip.h"
#include "pipes.h"
#include "recorder.h"

namespace tla {

/*! \brief A moment of the replay, in cycles, and the node that decided it (0: the start of the launch). */
struct Stamp {
  double time = 0;
  uint32_t by = 0;
};

/*! \brief A moment when nobody asks what decided it. */
struct PlainStamp {
  double time = 0;
  static constexpr uint32_t by = 0;

  PlainStamp() = default;
  PlainStamp(double t, uint32_t) : time(t) {}
  operator Stamp() const { return {time, 0}; }
};

template <class S>
const S& later(const S& a, const S& b) {
  return b.time > a.time ? b : a;
}

/*! \brief Why a pipe does not execute. Names: `wait_name`. */
enum class Wait : uint8_t { kBandwidth, kFlag, kBarrier, kIssue, kQueue, kCross, kScalar, kEnd };
const char* wait_name(Wait w);

/*! \brief Parts of the critical path. Names: `step_name`. */
enum class StepKind : uint8_t { kBusy, kBandwidth, kLatency, kIssue, kFlag, kCross };
const char* step_name(StepKind k);

/*! \brief Resources of `Reason::resource` that are no pipe. */
constexpr uint8_t kNoResource = 15, kResourceHbm = 14, kResourceL2 = 13;

/*! \brief A reason for waiting, the same for all waits that are counted together. */
struct Reason {
  bool aic = false;
  uint8_t slot = kS;  //!< pipe that waits
  Wait kind = Wait::kEnd;
  uint8_t resource = kNoResource;  //!< pipe waited for, or what is shared
  int32_t line = 0, set_line = 0;

  bool operator<(const Reason& o) const {
    return std::tie(aic, slot, kind, resource, line, set_line) <
           std::tie(o.aic, o.slot, o.kind, o.resource, o.line, o.set_line);
  }
};

struct Waited {
  double cycles = 0;
  int64_t count = 0;
};

/*! \brief One step of the critical path; layout known to Python (tilelang_ascend/sim/profile/record.py). */
struct PathStep {
  int32_t core, slot, op, line, kind, count;
  double start, cycles;
};

class Causes {
 public:
  Causes(const ChipParams& chip, size_t cores);

  // ---- nodes: what takes time
  /*! \brief `d` executes in [begin, end), of which `shared` cycles are lost to others at HBM or L2, and `assumed`
   * cycles rest on assumed constants. */
  uint32_t executes(int core, int slot, const TimeDesc& d, Stamp begin, double end, double assumed, double shared = 0);
  /*! \brief S issues `d`. Issues of one line that follow each other are one node. */
  uint32_t issues(int core, const TimeDesc& d, Stamp begin, double end);
  /*! \brief The flag that was set at `set` is seen at `end`. */
  uint32_t flag(int core, int slot, const TimeDesc& d, Stamp set, double end, bool cross);

  // ---- waits: the rest of the time of a pipe
  /*! \brief A pipe waits in [begin, end). */
  void waits(const Reason& reason, double begin, double end);
  /*! \brief S waits in [begin, end); pipes that run dry meanwhile wait for the same reason. */
  void scalar_waits(int core, const Reason& reason, double begin, double end);
  /*! \brief In [begin, end) a pipe had nothing to do, because S had not issued the instruction of `line`. */
  void runs_dry(int core, bool aic, int slot, int32_t line, double begin, double end);

  // ---- results
  /*! \brief Walk back from `last`. Afterwards `path` is in order of time, and `assumed` has the cycles of it that rest
   * on assumed constants. */
  void follow(Stamp last);
  std::map<Reason, Waited> stalls;
  std::vector<PathStep> path;
  double assumed = 0;

 private:
  struct Node {
    double begin, end;
    float shared;
    float latency, assumed, assumed_latency;  // of the instruction
    uint32_t before;
    int32_t op, line;
    int16_t core;
    uint8_t slot;
    StepKind kind;
  };
  struct ScalarWait {
    double begin, end;
    Reason reason;
  };
  uint32_t add(const Node& n) {
    nodes_.push_back(n);
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void step(const Node& n, StepKind kind, double start, double cycles);

  const bool issue_assumed_, flag_assumed_, cross_assumed_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> last_issue_;                           // by core
  std::vector<std::vector<ScalarWait>> scalar_;                // by core, in order of time
  std::vector<std::array<size_t, kNumSlots>> next_of_scalar_;  // by core and pipe: first that may still matter
};

}  // namespace tla

#endif  // TLA_MACHINE_CAUSES_H_
