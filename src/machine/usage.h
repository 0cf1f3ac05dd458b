/* What a launch used, for reports: traffic by tensor, and work by instruction. */
#ifndef TLA_MACHINE_USAGE_H_
#define TLA_MACHINE_USAGE_H_

#include <cstdint>
#include <vector>

#include "l2.h"
#include "recorder.h"

namespace tla {

/*! \brief Which bytes of a tensor were touched. */
class Coverage {
 public:
  /*! \brief Bytes [lo, lo + len) of a tensor of `size` bytes. */
  void add(int64_t lo, int64_t len, int64_t size);
  int64_t bytes() const;

 private:
  std::vector<uint64_t> words_;  // one bit for each byte
};

struct TensorUsage {
  int64_t read = 0, written = 0;  //!< bytes, by all cores
  double hbm_read = 0;            //!< what L2 did not have, whole lines
  Coverage reads, writes;
};

/*! \brief All instructions of one name. */
struct OpUsage {
  int64_t count = 0;
  int64_t gm_bytes = 0;
  double cycles = 0;    //!< in which they kept their pipes
  double conflict = 0;  //!< part of it that is due to conflicts of UB banks
  double work = 0;      //!< as in Cost
  double least = 0;     //!< cycles the work would take at the peak rate
};

class Usage {
 public:
  /*! \brief `sizes`: bytes of each tensor. */
  explicit Usage(std::vector<int64_t> sizes);

  void moves(const TimeDesc& d, const GmShape& a, int64_t offset, const Traffic& t);
  void executes(const TimeDesc& d, double cycles) {
    OpUsage& u = ops[static_cast<size_t>(d.op)];
    ++u.count;
    u.cycles += cycles;
    u.conflict += d.conflict;
    u.work += d.work;
    if (d.peak > 0) u.least += d.work / d.peak;
  }

  std::vector<TensorUsage> tensors;   //!< by position in GmMap::tensors()
  std::vector<int64_t> written_back;  //!< bytes to HBM, by tensor; counted by L2Model
  std::vector<OpUsage> ops;           //!< by opcode

 private:
  std::vector<int64_t> sizes_;
};

}  // namespace tla

#endif  // TLA_MACHINE_USAGE_H_
