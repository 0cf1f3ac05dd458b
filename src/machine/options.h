/* What a run observes, and how it schedules. Mirrors tilelang_ascend.sim.machine.SimOptions. */
#ifndef TLA_MACHINE_OPTIONS_H_
#define TLA_MACHINE_OPTIONS_H_

#include <cstdint>

namespace tla {

struct MachineOptions {
  bool values = true;            //!< simulate the contents of memories
  uint32_t checks = 0;           //!< bits of Check
  bool adversarial = true;       //!< transfers land as late as legal, block order is shuffled
  uint64_t seed = 0;             //!< of the shuffles
  bool time = true;              //!< record the stream for the time model
  bool trace = false;            //!< keep one event for each instruction of the time model
  bool record_stream = false;    //!< keep the issued instructions of every core
  bool record_tiles = false;     //!< with the numbers of the tiles in their operand words
  bool count_writes = false;     //!< count how often each byte of the tensors is written; needs values
  int32_t max_reports = 20;      //!< hazards kept
  int64_t max_instructions = 0;  //!< stop a core that issues more; 0: no limit
  bool every_step = false;       //!< time: issue and replay every iteration of loops that repeat themselves
  bool warm = false;             //!< time: L2 starts with what the same launches have left in it
  bool keep_record = false;      //!< keep what time was computed from, for replays
};

}  // namespace tla

#endif  // TLA_MACHINE_OPTIONS_H_
