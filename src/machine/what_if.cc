#include "what_if.h"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "op_info.h"

namespace tla {
namespace {

constexpr double kFree = 1e-9;  // a rate divided by it has no limit, and no product overflows

bool of_instructions(const std::string& what) {
  static const std::array<const char*, 7> kWhat = {"busy", "latency", "conflict",  "rate",
                                                   "wait", "barrier", "cross_wait"};
  return std::any_of(kWhat.begin(), kWhat.end(), [&](const char* w) { return what == w; });
}

/*! \brief `what` of the instructions that wait, empty for all others. */
std::string wait_of(const TimeDesc& d) {
  return d.kind == OpKind::kWaitFlag    ? "wait"
         : d.kind == OpKind::kCrossWait ? "cross_wait"
         : d.kind == OpKind::kBarrier   ? "barrier"
                                        : "";
}

/*! \brief Pipe a wait waits for: that of the flag; -1 for flags of other cores and barriers. */
int source_of(const TimeDesc& d, const ChipParams& chip) {
  return d.kind == OpKind::kWaitFlag ? OpTable::get().events[d.event / chip.num_event_ids].source : -1;
}

void apply(TimeDesc& d, const Scale& s) {
  const auto f = static_cast<float>(s.factor);
  if (s.what == wait_of(d)) {
    if (s.factor < 1) d.waits_for_nothing = true;
  } else if (!wait_of(d).empty()) {
    return;  // takes no time of its own
  } else if (s.what == "latency") {
    d.latency *= f;
    d.assumed_latency *= f;
  } else if (s.what == "conflict") {
    d.busy -= (1 - f) * d.conflict;
    d.conflict *= f;
  } else if (s.what == "rate") {
    d.gm_rate /= std::max(f, static_cast<float>(kFree));
    d.hbm_rate /= std::max(f, static_cast<float>(kFree));
  } else if (s.what == "busy") {
    if (d.slot == kS && d.busy == 0) return;  // costs its issue
    // On S no price means that of issue.
    d.busy = d.slot == kS ? std::max(d.busy * f, static_cast<float>(kFree)) : d.busy * f;
    d.assumed *= f;
    d.conflict *= f;
  }
}

}  // namespace

ChipParams scaled_chip(ChipParams chip, const std::vector<Scale>& scales) {
  for (const Scale& s : scales) {
    const double rate = 1 / std::max(s.factor, kFree);
    if (s.what == "hbm") {
      chip.hbm_bytes_per_second *= rate;
    } else if (s.what == "l2") {
      chip.l2_read_bytes_per_second *= rate;
      chip.l2_write_bytes_per_second *= rate;
    } else if (s.what == "issue") {
      chip.issue_cycles *= s.factor;
    } else if (s.what == "flag") {
      chip.flag_cycles *= s.factor;
    } else if (s.what == "cross") {
      chip.cross_core_flag_cycles *= s.factor;
    } else if (s.what == "queue") {
      if (s.factor < 1) chip.queue_depth = std::numeric_limits<int32_t>::max();
    } else if (!of_instructions(s.what)) {
      throw std::runtime_error("there is no cost named '" + s.what + "'");
    }
  }
  return chip;
}

std::vector<TimeDesc> scaled_descs(std::vector<TimeDesc> descs, const ChipParams& chip, bool aic,
                                   const std::vector<Scale>& scales) {
  for (const Scale& s : scales) {
    if (!of_instructions(s.what) || (s.core >= 0 && (s.core == 0) != aic)) continue;
    for (TimeDesc& d : descs) {
      if (s.slot >= 0 && s.slot != d.slot) continue;
      if (s.line >= 0 && s.line != d.line) continue;
      if (s.source >= 0 && s.source != source_of(d, chip)) continue;
      apply(d, s);
    }
  }
  return descs;
}

}  // namespace tla
