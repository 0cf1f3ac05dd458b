/* What the time of a call is computed from: it outlives the machines, so that the call can be replayed at other prices.
 */
#ifndef TLA_MACHINE_RECORDING_H_
#define TLA_MACHINE_RECORDING_H_

#include <memory>
#include <string>
#include <vector>

#include "l2.h"
#include "machine.h"
#include "syncs.h"
#include "timing.h"
#include "usage.h"
#include "what_if.h"

namespace tla {

/*! \brief The streams of one launch. */
struct LaunchRecord {
  struct Core {
    std::string name;
    bool aic;
    int block;
    CoreRecord record;
  };
  std::vector<Core> cores;
  std::vector<TimeDesc> descs;
  std::vector<GmShape> shapes;
};

/*! \brief Times of one launch, and why they are what they are. */
struct Replayed {
  TimeReport time;
  std::vector<SyncItem> syncs;     //!< when a trace is asked for
  std::unique_ptr<Causes> causes;  //!< when asked for
};

class Recording {
 public:
  Recording(const ChipParams& chip, const std::vector<GmTensor>& tensors);

  /*! \brief Take over what a machine recorded; it has run, and its time is not asked for any more. */
  void take(Machine& machine);
  /*! \brief Let L2 begin with what one call leaves in it. */
  void warm();

  /*!
   * \brief Times of all launches, one after the other.
   * \param usage Null, or where to count traffic and work of all launches; then there are causes, too.
   */
  std::vector<Replayed> replay(const std::vector<Scale>& scales, bool trace, Usage* usage, Poll& poll) const;

  struct Tensor {
    std::string name;
    int64_t bytes;
    bool scratch;
  };
  const std::vector<LaunchRecord>& launches() const { return launches_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  ChipParams chip_;
  L2Model l2_;
  std::vector<Tensor> tensors_;
  std::vector<LaunchRecord> launches_;
};

}  // namespace tla

#endif  // TLA_MACHINE_RECORDING_H_
