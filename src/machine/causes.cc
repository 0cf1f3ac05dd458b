#include "causes.h"

#include <algorithm>

namespace tla {

const char* wait_name(Wait w) {
  static const char* const kNames[] = {"bandwidth", "flag", "barrier", "issue", "queue", "cross", "scalar", "end"};
  return kNames[static_cast<int>(w)];
}

const char* step_name(StepKind k) {
  static const char* const kNames[] = {"busy", "bandwidth", "latency", "issue", "flag", "cross"};
  return kNames[static_cast<int>(k)];
}

Causes::Causes(const ChipParams& chip, size_t cores)
    : issue_assumed_(chip.is_assumed("issue_cycles")),
      flag_assumed_(chip.is_assumed("flag_cycles")),
      cross_assumed_(chip.is_assumed("cross_core_flag_cycles")),
      nodes_(1),
      last_issue_(cores),
      scalar_(cores),
      next_of_scalar_(cores) {}

uint32_t Causes::executes(int core, int slot, const TimeDesc& d, Stamp begin, double end, double assumed,
                          double shared) {
  return add({begin.time, end, static_cast<float>(shared), d.latency, static_cast<float>(assumed), d.assumed_latency,
              begin.by, d.op, d.line, static_cast<int16_t>(core), static_cast<uint8_t>(slot), StepKind::kBusy});
}

uint32_t Causes::issues(int core, const TimeDesc& d, Stamp begin, double end) {
  uint32_t& last = last_issue_[static_cast<size_t>(core)];
  if (last != 0 && begin.by == last && nodes_[last].end == begin.time && nodes_[last].line == d.line) {
    nodes_[last].end = end;
    return last;
  }
  last = add({begin.time, end, 0, 0, 0, 0, begin.by, d.op, d.line, static_cast<int16_t>(core), kS, StepKind::kIssue});
  return last;
}

uint32_t Causes::flag(int core, int slot, const TimeDesc& d, Stamp set, double end, bool cross) {
  return add({set.time, end, 0, 0, 0, 0, set.by, d.op, d.line, static_cast<int16_t>(core), static_cast<uint8_t>(slot),
              cross ? StepKind::kCross : StepKind::kFlag});
}

void Causes::waits(const Reason& reason, double begin, double end) {
  if (end <= begin) return;
  Waited& w = stalls[reason];
  w.cycles += end - begin;
  ++w.count;
}

void Causes::scalar_waits(int core, const Reason& reason, double begin, double end) {
  if (end <= begin) return;
  waits(reason, begin, end);
  scalar_[static_cast<size_t>(core)].push_back({begin, end, reason});
}

void Causes::runs_dry(int core, bool aic, int slot, int32_t line, double begin, double end) {
  if (end <= begin) return;
  const auto& scalar = scalar_[static_cast<size_t>(core)];
  size_t& next = next_of_scalar_[static_cast<size_t>(core)][static_cast<size_t>(slot)];
  while (next < scalar.size() && scalar[next].end <= begin) ++next;
  double issue = end - begin;
  for (size_t i = next; i < scalar.size() && scalar[i].begin < end; ++i) {
    const double from = std::max(begin, scalar[i].begin), to = std::min(end, scalar[i].end);
    if (to <= from) continue;
    Reason r = scalar[i].reason;
    r.slot = static_cast<uint8_t>(slot);
    if (r.kind == Wait::kFlag || r.kind == Wait::kBarrier) r.kind = Wait::kScalar;
    waits(r, from, to);
    issue -= to - from;
  }
  Reason r;
  r.aic = aic;
  r.slot = static_cast<uint8_t>(slot);
  r.kind = Wait::kIssue;
  r.line = line;
  waits(r, 0, issue);
}

void Causes::step(const Node& n, StepKind kind, double start, double cycles) {
  if (cycles <= 0) return;
  if (!path.empty()) {  // steps come backwards; the same thing done again is one step
    PathStep& p = path.back();
    if (p.core == n.core && p.slot == n.slot && p.op == n.op && p.line == n.line && p.kind == static_cast<int>(kind)) {
      p.start = start;
      p.cycles += cycles;
      ++p.count;
      return;
    }
  }
  path.push_back({n.core, n.slot, n.op, n.line, static_cast<int32_t>(kind), 1, start, cycles});
}

void Causes::follow(Stamp last) {
  double at = last.time;
  for (uint32_t i = last.by; i != 0; i = nodes_[i].before) {
    const Node& n = nodes_[i];
    const double end = std::min(n.end, at);
    // Between the end of an instruction and what follows from its result: the result is on its way.
    step(n, StepKind::kLatency, end, at - end);
    assumed += std::min<double>(n.assumed_latency, at - end);
    if (n.kind == StepKind::kBusy) {
      step(n, StepKind::kBandwidth, end - n.shared, n.shared);
      step(n, StepKind::kBusy, n.begin, end - n.shared - n.begin);
      assumed += std::min<double>(n.assumed, end - n.begin);
    } else {
      step(n, n.kind, n.begin, end - n.begin);
      const bool is_assumed = n.kind == StepKind::kIssue  ? issue_assumed_
                              : n.kind == StepKind::kFlag ? flag_assumed_
                                                          : cross_assumed_;
      if (is_assumed) assumed += end - n.begin;
    }
    at = n.begin;
  }
  std::reverse(path.begin(), path.end());
}

}  // namespace tla
