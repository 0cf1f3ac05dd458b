#include "hazard.h"

#include <utility>

namespace tla {

const char* check_name(Check check) {
  switch (check) {
    case kMemcheck:
      return "memcheck";
    case kInitcheck:
      return "initcheck";
    case kRacecheck:
      return "racecheck";
    case kSynccheck:
      return "synccheck";
    case kDeadlock:
      return "deadlock";
    case kInvalid:
      return "invalid";
    case kTrap:
      return "trap";
  }
  return "?";
}

void HazardLog::add(Hazard h, int subtype) {
  if (!on(h.check)) return;
  Key key{h.check, subtype, h.first.op, h.first.line, h.first.slot, h.second.op, h.second.line, h.second.slot, h.space};
  if (!seen_.insert(key).second) return;
  if (static_cast<int32_t>(reports_.size()) >= max_) {
    ++suppressed_;
    return;
  }
  reports_.push_back(std::move(h));
}

}  // namespace tla
