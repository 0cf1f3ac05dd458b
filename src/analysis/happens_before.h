/*
 * Happens-before over one unrolled execution of a kernel (tilelang_ascend/analysis/dependence/trace.py).
 *
 * The state is one vector clock per queue (a pipe of a core): clock[p][c] = t says that all instances in column c up to
 * trace position t are complete before the next instruction of queue p starts; positions fit 32 bits. Where control
 * flow joins, clocks meet (element-wise minimum): what holds afterwards holds on every path.
 */
#ifndef TLA_ANALYSIS_HAPPENS_BEFORE_H_
#define TLA_ANALYSIS_HAPPENS_BEFORE_H_

#include <cstdint>
#include <vector>

namespace tla {

/*! \brief What an event is; the numbers are those of tilelang_ascend/analysis/dependence/trace.py and
 * happens_before.py. */
enum class HbKind : int64_t {
  kInstr = 0,
  kFork = 3,
  kElse = 4,
  kJoin = 5,
  kJump = 6,
  kSet = 10,
  kWait = 11,
  kBarrier = 12,
  kBarrierAll = 13,
  kCrossSet = 14,
  kCrossWait = 15,
};

/*! \brief One event; which fields mean something depends on `kind`. */
struct HbEvent {
  int64_t kind;
  int64_t key;       //!< flag
  int64_t queue;     //!< queue of the instruction, the setter, the waiter or the barrier
  int64_t core;      //!< of a barrier for all pipes and of a wait across cores
  int64_t column;    //!< of an instruction
  int64_t position;  //!< of an instruction
  int64_t first_need;
  int64_t end_need;
  int64_t owner;  //!< what put the event there; -1: the kernel itself
};

/*! \brief An earlier instance that an instruction needs complete. */
struct HbNeed {
  int64_t column;
  int64_t position;
};

/*! \brief A trace with synchronisation in place. */
struct HbTrace {
  const HbEvent* events;
  int64_t num_events;
  const HbNeed* needs;
  std::vector<int64_t> queue_of;    //!< queue of each column
  std::vector<int64_t> queue_core;  //!< core of each queue
  int64_t num_keys;
  bool forked;  //!< has control flow: each flag then has a column for its waits
};

/*! \brief How to run it. */
struct HbOptions {
  const uint8_t* left_out;  //!< for each owner: its events do not exist
  bool without_barriers;    //!< barriers of single queues do not exist
  bool first_only;          //!< stop at the first finding
  bool assume_barriers;  //!< report dependent instructions of one queue once, as if a barrier stood before the second
  int64_t credit;        //!< sets of one cross-core flag that may be ahead of its waits
};

enum HbBroken : int64_t { kSetTwice, kWaitWithoutSet, kCrossWaitWithoutSet, kPathsDiffer };

/*! \brief What is wrong. */
struct HbFindings {
  std::vector<int64_t> uncovered;  //!< needs nothing orders
  std::vector<int64_t> unsafe;     //!< flags that may be set again before their last wait is over
  std::vector<int64_t> broken;     //!< pairs of HbBroken and flag
  std::vector<int64_t> leftover;   //!< flags still up at the end
};

HbFindings happens_before(const HbTrace& trace, const HbOptions& options);

}  // namespace tla

#endif  // TLA_ANALYSIS_HAPPENS_BEFORE_H_
