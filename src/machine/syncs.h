/* The flags of a recorded run, for people who look at its time line. */
#ifndef TLA_MACHINE_SYNCS_H_
#define TLA_MACHINE_SYNCS_H_

#include <cstdint>
#include <vector>

#include "recorder.h"

namespace tla {

/*! \brief One set of a flag or one wait for it, in the order of issue of its core. */
struct SyncItem {
  int32_t core;   //!< position in the machine
  int32_t kind;   //!< 0 set, 1 wait, 2 cross-core set, 3 cross-core wait
  int32_t event;  //!< event code; -1: a cross-core flag
  int32_t id;
  int32_t mode;  //!< of a cross-core set
  int32_t line;
  int32_t slot;  //!< pipe of the neighbour on the time line
  int32_t
      place;  //!< which instruction of that pipe it is, from 0: a set's last one, a wait's next one; -1: there is none
};

/*! \brief Append the flags of one core. A wait for another core holds every pipe: its neighbour is what is issued next.
 */
void append_syncs(const std::vector<TimeDesc>& descs, int num_ids, const CoreRecord& record, int core,
                  std::vector<SyncItem>& out);

}  // namespace tla

#endif  // TLA_MACHINE_SYNCS_H_
