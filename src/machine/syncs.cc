#include "syncs.h"

#include "pipes.h"
#include "repeats.h"

namespace tla {

void append_syncs(const std::vector<TimeDesc>& descs, int num_ids, const CoreRecord& record, int core,
                  std::vector<SyncItem>& out) {
  int32_t executed[kNumSlots] = {};
  size_t first = out.size();    // what belongs to this core
  std::vector<size_t> holding;  // waits for other cores nothing has been issued behind yet
  for_items(record, [&](uint32_t id) {
    const TimeDesc& d = descs[id];
    const bool cross = d.kind == OpKind::kCrossSet || d.kind == OpKind::kCrossWait;
    SyncItem item{core,
                  0,
                  cross ? -1 : d.event / num_ids,
                  cross ? d.event : d.event % num_ids,
                  0,
                  d.line,
                  d.slot,
                  executed[d.slot]};
    switch (d.kind) {
      case OpKind::kExec:
        for (const size_t i : holding) {
          out[i].slot = d.slot;
          out[i].place = executed[d.slot];
        }
        holding.clear();
        ++executed[d.slot];
        return;
      case OpKind::kSetFlag:
        --item.place;
        break;
      case OpKind::kWaitFlag:
        item.kind = 1;
        break;
      case OpKind::kCrossSet:
        item.kind = 2;
        item.mode = d.mode;
        --item.place;
        break;
      case OpKind::kCrossWait:
        item.kind = 3;
        item.place = -1;
        holding.push_back(out.size());
        break;
      default:
        return;
    }
    out.push_back(item);
  });
  for (; first < out.size(); ++first) {
    if (out[first].place >= executed[out[first].slot]) out[first].place = -1;
  }
}

}  // namespace tla
