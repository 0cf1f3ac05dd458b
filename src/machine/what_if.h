/*
 * Replays in which a cost is scaled or gone: what a kernel would take without it.
 *
 * Prices of recorded instructions and parameters of the chip are changed before the replay, so that the replay itself
 * knows nothing of it.
 */
#ifndef TLA_MACHINE_WHAT_IF_H_
#define TLA_MACHINE_WHAT_IF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "chip.h"
#include "recorder.h"

namespace tla {

/*! \brief One cost, and what becomes of it. -1 selects everything. */
struct Scale {
  /*!
   * \brief Of selected instructions: "busy" (what the pipe needs for them), "latency", "conflict" (of UB banks), "rate"
   * (time of their bytes on their own path); "wait" (for flags of this core), "cross_wait" (for those of others),
   * "barrier": a factor below 1 means that they wait for nothing. Of the chip: "hbm", "l2" (time of bytes there),
   * "issue", "flag", "cross", "queue" (a factor below 1: no end of it).
   */
  std::string what;
  double factor = 0;
  int core = -1;    //!< 0: AIC, 1: AIV
  int slot = -1;    //!< pipe
  int source = -1;  //!< waits: pipe that is waited for
  int line = -1;
};

/*! \brief The chip with its parameters scaled. Throws std::runtime_error for an unknown `what`. */
ChipParams scaled_chip(ChipParams chip, const std::vector<Scale>& scales);

/*! \brief Descriptions as cores of the type see them. */
std::vector<TimeDesc> scaled_descs(std::vector<TimeDesc> descs, const ChipParams& chip, bool aic,
                                   const std::vector<Scale>& scales);

}  // namespace tla

#endif  // TLA_MACHINE_WHAT_IF_H_
