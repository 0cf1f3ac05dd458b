/* Hazard reports: what the checks found, without duplicates and up to a limit. */
#ifndef TLA_MACHINE_HAZARD_H_
#define TLA_MACHINE_HAZARD_H_

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tla {

/*! \brief The checks. `kDeadlock`, `kInvalid` and `kTrap` cannot be switched off: the run cannot go on as written. */
enum Check : uint32_t {
  kMemcheck = 1u << 0,
  kInitcheck = 1u << 1,
  kRacecheck = 1u << 2,
  kSynccheck = 1u << 3,
  kDeadlock = 1u << 4,
  kInvalid = 1u << 5,
  kTrap = 1u << 6,  //!< the program itself found that it cannot go on
};

/*! \brief Name of one check, as users write it. */
const char* check_name(Check check);

/*! \brief Which instruction of which core: enough to name it in a report. */
struct Site {
  int32_t op = -1;     //!< Op, -1: none
  int32_t line = 0;    //!< source line, 0 when unknown
  int16_t core = -1;   //!< index in the machine, -1: none
  int8_t slot = -1;    //!< Slot of the pipe it executes on
  uint32_t order = 0;  //!< number of the instruction in the program of its core
};

/*! \brief One finding. */
struct Hazard {
  Check check = kInvalid;
  std::string message;
  Site first;              //!< the instruction at fault (the later one of a pair)
  Site second;             //!< the other instruction involved; `op` is -1 when there is none
  int32_t space = -1;      //!< memory space, -1 when no memory is involved
  int64_t lo = 0, hi = 0;  //!< byte range in the space; for GM relative to the tensor
  std::string tensor;      //!< name of the GM tensor, if any
};

/*! \brief Collects hazards. The same pair of source instructions is reported once for each kind of finding. */
class HazardLog {
 public:
  HazardLog(uint32_t enabled, int32_t max_reports)
      : enabled_(enabled | kDeadlock | kInvalid | kTrap), max_(max_reports) {}

  bool on(Check check) const { return (enabled_ & check) != 0; }
  /*! \brief Record `hazard`; `subtype` tells apart findings of one check on the same pair of instructions. */
  void add(Hazard hazard, int subtype = 0);
  const std::vector<Hazard>& reports() const { return reports_; }
  /*! \brief Findings that were distinct but beyond the limit. */
  int64_t suppressed() const { return suppressed_; }

 private:
  using Key = std::tuple<uint32_t, int, int32_t, int32_t, int8_t, int32_t, int32_t, int8_t, int32_t>;
  uint32_t enabled_;
  int32_t max_;
  int64_t suppressed_ = 0;
  std::set<Key> seen_;
  std::vector<Hazard> reports_;
};

}  // namespace tla

#endif  // TLA_MACHINE_HAZARD_H_
