/*
 * The third observer: replays the recorded streams of all cores in a discrete-event simulation.
 *
 * A core issues in program order, `issue_cycles` an instruction; each pipe executes its queue in order; flags, barriers
 * and cross-core flags hold pipes and cores exactly as in the value simulation. Transfers that touch GM share the
 * bandwidth of HBM and L2 with all other cores (max-min fair, each path limited by its own rate). Simulated times are
 * estimates; `assumed_share` says how much of them rests on constants nobody has measured.
 */
#ifndef TLA_MACHINE_TIMING_H_
#define TLA_MACHINE_TIMING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "causes.h"
#include "chip.h"
#include "gm.h"
#include "l2.h"
#include "pipes.h"
#include "poll.h"
#include "recorder.h"
#include "usage.h"

namespace tla {

/*! \brief One executed instruction of the time line. Times in cycles from the start of the kernel. */
struct TraceEvent {
  int32_t core, slot, op, line;
  double start, duration;
};

/*! \brief Times of one core, in cycles. */
struct CoreTime {
  double end = 0;                  //!< when its last instruction is complete
  double busy[kNumSlots] = {};     //!< time each pipe spent executing
  double assumed[kNumSlots] = {};  //!< part of it that rests on assumed constants
  int64_t count[kNumSlots] = {};   //!< instructions executed
};

struct TimeReport {
  double cycles = 0;  //!< end of the last core
  double launch_us = 0;
  double us = 0;                                    //!< launch plus cycles at the core clock
  double assumed_share = 0;                         //!< of `us`
  int64_t hbm_read_bytes = 0, hbm_write_bytes = 0;  //!< first touches and evictions
  int64_t l2_read_bytes = 0, l2_write_bytes = 0;    //!< all traffic of the cores
  std::string stuck;  //!< names a core that never finished (the program deadlocks); empty if all did
  std::vector<CoreTime> cores;
  std::vector<TraceEvent> events;  //!< only when asked for
};

/*! \brief What the replay needs to know about a core. */
struct TimedCore {
  bool aic = false;
  int block = 0;
  const CoreRecord* record = nullptr;
  const std::vector<TimeDesc>* descs = nullptr;  //!< of `record`
  const std::vector<GmShape>* shapes = nullptr;  //!< of its accesses
};

/*! \brief What a replay notes besides times. */
struct Observers {
  bool trace = false;        //!< one event for each instruction
  Causes* causes = nullptr;  //!< why instructions began when they did; together with
  Usage* usage = nullptr;    //!< traffic and work, or null both
};

/*! \brief Replay one launch. `l2` holds what the launches before left in L2, and then what this one leaves. */
TimeReport simulate_time(const ChipParams& chip, const std::vector<TimedCore>& cores, L2Model& l2, Observers observers,
                         Poll& poll);

/*!
 * \brief Bring L2 into the state one launch leaves it in, without simulating its time: every core is always equally far
 * in its transfers.
 */
void warm_l2(const std::vector<TimedCore>& cores, L2Model& l2);

}  // namespace tla

#endif  // TLA_MACHINE_TIMING_H_
