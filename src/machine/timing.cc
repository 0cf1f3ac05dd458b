#include "timing.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "bandwidth.h"
#include "op_info.h"

namespace tla {
namespace {

constexpr int kOwnersPerCore = 8;

/*! \brief An instruction waiting in front of a pipe. */
struct Queued {
  uint32_t desc;
  uint32_t access;  // first of its GM accesses
  double ready;     // when the scalar pipe had issued it
};

struct PipeSim {
  std::deque<Queued> queue;
  double free = 0;          // may start its next instruction
  double done = 0;          // all instructions so far are complete
  bool in_flight = false;   // the head moves GM data
  double start = 0;         // of the head in flight
  double second_phase = 0;  // L2 bytes still to move after the HBM part
  bool write = false;
};

struct CoreSim {
  TimedCore info;
  size_t next = 0;  // item the scalar pipe issues next
  uint32_t access = 0;
  double now = 0;  // of the scalar pipe
  PipeSim pipe[kNumSlots];
  std::vector<std::deque<double>> flags;       // times at which sets completed, by event code and id
  std::map<int, std::deque<double>> counters;  // cross-core flags: times of delivery
};

class Replay {
 public:
  Replay(const ChipParams& chip, const std::vector<TimeDesc>& descs, const std::vector<TimedCore>& cores, L2Model& l2,
         bool trace, Poll& poll)
      : chip_(chip),
        descs_(descs),
        trace_(trace),
        poll_(poll),
        l2_(l2),
        shared_{SharedBandwidth(chip.hbm_bytes_per_second / chip.clock_hz),
                SharedBandwidth(chip.l2_read_bytes_per_second / chip.clock_hz),
                SharedBandwidth(chip.l2_write_bytes_per_second / chip.clock_hz)},
        shared_assumed_{chip.is_assumed("hbm_bytes_per_second"), chip.is_assumed("l2_read_bytes_per_second"),
                        chip.is_assumed("l2_write_bytes_per_second")} {
    sims_.resize(cores.size());
    report_.cores.resize(cores.size());
    last_pop_.resize(cores.size());
    phase_start_.resize(cores.size() * kOwnersPerCore);
    for (size_t i = 0; i < cores.size(); ++i) {
      sims_[i].info = cores[i];
      sims_[i].flags.resize(static_cast<size_t>(kNumEvents * chip.num_event_ids));
    }
  }

  TimeReport run() {
    for (size_t i = 0; i < sims_.size(); ++i) run_core(static_cast<int>(i));
    while (step()) breathe();
    finish();
    return std::move(report_);
  }

 private:
  enum Resource { kHbm, kL2Read, kL2Write, kNumResources };
  struct Event {
    double time;
    uint64_t order;
    int32_t owner;     // core * 8 + slot
    int16_t mode, id;  // mode -1: a transfer reaches GM; else a cross-core set completes
    bool operator<(const Event& o) const { return std::tie(time, order) > std::tie(o.time, o.order); }
  };

  bool step() {
    double t = events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time;
    int resource = -1;
    for (int r = 0; r < kNumResources; ++r) {
      if (shared_[r].next() < t) {
        t = shared_[r].next();
        resource = r;
      }
    }
    if (resource >= 0) {
      phase_done(shared_[resource].finish(), t, static_cast<Resource>(resource));
      return true;
    }
    if (events_.empty()) return false;
    const Event e = events_.top();
    events_.pop();
    if (e.mode < 0) {
      start_transfer(e.owner, e.time);
    } else {
      arrive(e.owner / kOwnersPerCore, e.mode, e.id, e.time);
    }
    return true;
  }

  void breathe() {
    if (poll_.due()) poll_();
  }

  void schedule(double time, int core, int slot, int mode, int id) {
    events_.push({time, order_++, core * kOwnersPerCore + slot, static_cast<int16_t>(mode), static_cast<int16_t>(id)});
  }

  // ---- one core, as far as it goes without the others
  void run_core(int index) {
    CoreSim& c = sims_[static_cast<size_t>(index)];
    for (bool moved = true; moved;) {
      moved = false;
      while (issue_next(index, c)) {
        breathe();
        moved = true;
      }
      for (int slot = 1; slot < kNumSlots; ++slot) {
        while (execute_head(index, c, slot)) moved = true;
      }
    }
  }

  bool issue_next(int index, CoreSim& c) {
    if (c.next >= c.info.record->items.size()) return false;
    const uint32_t id = c.info.record->items[c.next];
    const TimeDesc& d = descs_[id];
    if (d.slot != kS) {
      PipeSim& p = c.pipe[d.slot];
      if (static_cast<int>(p.queue.size()) >= chip_.queue_depth) return false;
      c.now = std::max(c.now, last_pop_[static_cast<size_t>(index)][d.slot]);
      spend(index, kS, c.now, chip_.issue_cycles, assumed_issue(), d, false);
      c.now += chip_.issue_cycles;
      p.queue.push_back({id, c.access, c.now});
    } else if (!execute_scalar(index, c, d)) {
      return false;
    }
    c.access += d.num_accesses;
    ++c.next;
    return true;
  }

  bool execute_scalar(int index, CoreSim& c, const TimeDesc& d) {
    switch (d.kind) {
      case OpKind::kWaitFlag: {
        auto& flag = c.flags[static_cast<size_t>(d.event)];
        if (flag.empty()) return false;
        c.now = std::max(c.now, flag.front());
        flag.pop_front();
        break;
      }
      case OpKind::kCrossWait: {
        auto& counter = c.counters[d.event];
        if (counter.empty()) return false;
        c.now = std::max(c.now, counter.front() + chip_.cross_core_flag_cycles);
        counter.pop_front();
        break;
      }
      case OpKind::kBarrier:
        for (const PipeSim& p : c.pipe) {
          if (!p.queue.empty()) return false;
        }
        for (const PipeSim& p : c.pipe) c.now = std::max({c.now, p.free, p.done});
        break;
      case OpKind::kSetFlag:
        c.flags[static_cast<size_t>(d.event)].push_back(c.now);
        break;
      case OpKind::kCrossSet:
        schedule(c.now, index, kS, d.mode, d.event);
        break;
      default:
        break;
    }
    const double busy = d.busy > 0 ? d.busy : chip_.issue_cycles;
    spend(index, kS, c.now, busy, d.busy > 0 ? d.assumed : assumed_issue(), d, d.kind == OpKind::kExec);
    c.now += busy;
    return true;
  }

  bool execute_head(int index, CoreSim& c, int slot) {
    PipeSim& p = c.pipe[slot];
    if (p.queue.empty() || p.in_flight) return false;
    const Queued q = p.queue.front();
    const TimeDesc& d = descs_[q.desc];
    const double start = std::max(p.free, q.ready);
    switch (d.kind) {
      case OpKind::kExec:
        if (d.num_accesses != 0) {
          p.in_flight = true;
          p.start = start;
          schedule(start + d.busy, index, slot, -1, 0);
          return false;
        }
        spend(index, slot, start, d.busy, d.assumed, d, true);
        p.free = start + d.busy;
        p.done = std::max(p.done, p.free + d.latency);
        break;
      case OpKind::kSetFlag:
        c.flags[static_cast<size_t>(d.event)].push_back(std::max(start, p.done));
        break;
      case OpKind::kWaitFlag: {
        auto& flag = c.flags[static_cast<size_t>(d.event)];
        if (flag.empty()) return false;
        p.free = std::max(start, flag.front());
        flag.pop_front();
        break;
      }
      case OpKind::kBarrier:
        p.free = std::max(start, p.done);
        break;
      case OpKind::kCrossSet:
        schedule(std::max(start, p.done), index, slot, d.mode, d.event);
        break;
      default:
        break;
    }
    pop(index, c, slot, start);
    return true;
  }

  void pop(int index, CoreSim& c, int slot, double time) {
    c.pipe[slot].queue.pop_front();
    // A full queue holds the scalar pipe until its head has left.
    if (static_cast<int>(c.pipe[slot].queue.size()) + 1 >= chip_.queue_depth) {
      last_pop_[static_cast<size_t>(index)][slot] = time;
    }
  }

  // ---- GM transfers
  void start_transfer(int owner, double now) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    CoreSim& c = sims_[static_cast<size_t>(index)];
    PipeSim& p = c.pipe[slot];
    const Queued& q = p.queue.front();
    const TimeDesc& d = descs_[q.desc];
    Traffic sum;
    for (uint32_t i = 0; i < d.num_accesses; ++i) {
      const GmTraffic& a = c.info.record->accesses[q.access + i];
      const Traffic t = l2_.touch(a);
      sum.hbm_read += t.hbm_read;
      sum.hbm_write += t.hbm_write;
      sum.l2 += t.l2;
      p.write = a.write;
      (a.write ? report_.l2_write_bytes : report_.l2_read_bytes) += a.count * a.len;
    }
    report_.hbm_read_bytes += static_cast<int64_t>(sum.hbm_read);
    report_.hbm_write_bytes += static_cast<int64_t>(sum.hbm_write);
    p.second_phase = sum.l2;
    const double hbm = sum.hbm_read + sum.hbm_write;
    if (hbm > 0) {
      begin_phase(kHbm, owner, now, hbm, d);
    } else {
      second_phase(owner, now);
    }
  }

  void begin_phase(Resource r, int owner, double now, double bytes, const TimeDesc& d) {
    constexpr double kUnlimited = 1e12;
    shared_[r].start(now, bytes, d.gm_rate > 0 ? d.gm_rate : kUnlimited, owner);
    phase_start_[owner] = now;
  }

  void phase_done(int owner, double now, Resource r) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    if (shared_assumed_[r]) report_.cores[static_cast<size_t>(index)].assumed[slot] += now - phase_start_[owner];
    if (r == kHbm) {
      second_phase(owner, now);
    } else {
      end_transfer(owner, now);
    }
  }

  void second_phase(int owner, double now) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    PipeSim& p = sims_[static_cast<size_t>(index)].pipe[slot];
    if (p.second_phase <= 0) {
      end_transfer(owner, now);
      return;
    }
    begin_phase(p.write ? kL2Write : kL2Read, owner, now, p.second_phase, descs_[p.queue.front().desc]);
  }

  void end_transfer(int owner, double now) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    CoreSim& c = sims_[static_cast<size_t>(index)];
    PipeSim& p = c.pipe[slot];
    const TimeDesc& d = descs_[p.queue.front().desc];
    spend(index, slot, p.start, now - p.start, d.assumed, d, true);
    p.free = now;
    p.done = std::max(p.done, now + d.latency);
    p.in_flight = false;
    pop(index, c, slot, p.start);
    run_core(index);
  }

  // ---- cross-core flags
  void arrive(int setter, int mode, int id, double now) {
    const TimedCore& s = sims_[static_cast<size_t>(setter)].info;
    const auto key = std::make_tuple(mode, mode == 0 ? 0 : s.block, s.aic, id);
    auto& arrivals = arrivals_[key];
    arrivals[setter].push_back(now);
    size_t members = 0;
    for (const CoreSim& c : sims_) members += c.info.aic == s.aic && (mode == 0 || c.info.block == s.block);
    if (arrivals.size() < members) return;
    double latest = now;
    for (auto& [core, times] : arrivals) latest = std::max(latest, times.front());
    for (auto it = arrivals.begin(); it != arrivals.end();) {
      it->second.pop_front();
      it = it->second.empty() ? arrivals.erase(it) : std::next(it);
    }
    for (size_t i = 0; i < sims_.size(); ++i) {
      const TimedCore& r = sims_[i].info;
      if ((mode != 0 && r.block != s.block) || (r.aic == s.aic) == (mode == 2)) continue;
      sims_[i].counters[id].push_back(latest);
      run_core(static_cast<int>(i));
    }
  }

  // ---- accounting
  double assumed_issue() const { return issue_assumed_ ? chip_.issue_cycles : 0; }

  void spend(int core, int slot, double start, double busy, double assumed, const TimeDesc& d, bool event) {
    CoreTime& t = report_.cores[static_cast<size_t>(core)];
    t.busy[slot] += busy;
    t.assumed[slot] += std::min(assumed, busy);
    if (!event) return;
    ++t.count[slot];
    if (trace_) report_.events.push_back({core, slot, d.op, d.line, start, busy});
  }

  void finish() {
    for (size_t i = 0; i < sims_.size(); ++i) {
      CoreSim& c = sims_[i];
      double end = c.now;
      bool stuck = c.next < c.info.record->items.size();
      for (const PipeSim& p : c.pipe) {
        end = std::max({end, p.free, p.done});
        stuck |= !p.queue.empty();
      }
      report_.cores[i].end = end;
      report_.cycles = std::max(report_.cycles, end);
      if (stuck && report_.stuck.empty()) {
        report_.stuck = std::string(c.info.aic ? "AIC" : "AIV") + " core of block " + std::to_string(c.info.block);
      }
    }
    report_.launch_us = chip_.launch_seconds * 1e6;
    const double kernel_us = report_.cycles / chip_.clock_hz * 1e6;
    report_.us = report_.launch_us + kernel_us;
    double busiest = 0, share = 0;
    for (int slot = 0; slot < kNumSlots; ++slot) {
      double busy = 0, assumed = 0;
      for (const CoreTime& t : report_.cores) {
        busy += t.busy[slot];
        assumed += t.assumed[slot];
      }
      if (busy <= busiest) continue;
      busiest = busy;
      share = assumed / busy;
    }
    const double launch_assumed = chip_.is_assumed("launch_seconds") ? report_.launch_us : 0;
    report_.assumed_share = report_.us > 0 ? (launch_assumed + share * kernel_us) / report_.us : 0;
  }

  const ChipParams& chip_;
  const std::vector<TimeDesc>& descs_;
  const bool trace_;
  Poll& poll_;
  const bool issue_assumed_ = chip_.is_assumed("issue_cycles");
  TimeReport report_;
  L2Model& l2_;
  SharedBandwidth shared_[kNumResources];
  bool shared_assumed_[kNumResources];
  std::vector<CoreSim> sims_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  std::vector<std::array<double, kNumSlots>> last_pop_;  // by core: when a full queue last let an item go
  std::vector<double> phase_start_;                      // by owner
  std::map<std::tuple<int, int, bool, int>, std::map<int, std::deque<double>>> arrivals_;
};

}  // namespace

TimeReport simulate_time(const ChipParams& chip, const std::vector<TimeDesc>& descs,
                         const std::vector<TimedCore>& cores, L2Model& l2, bool trace, Poll& poll) {
  return Replay(chip, descs, cores, l2, trace, poll).run();
}

}  // namespace tla
