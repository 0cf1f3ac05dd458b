#include "timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "bandwidth.h"
#include "op_info.h"
#include "ring.h"

namespace tla {
namespace {

constexpr int kOwnersPerCore = 8;
constexpr double kRounding = 1e-6;  // cycles: what the sums of the bandwidth model are off by, and more

/*! \brief An instruction waiting in front of a pipe. */
template <class S>
struct Queued {
  uint32_t desc;
  size_t access;  // first of its GM accesses
  S ready;        // when the scalar pipe had issued it
};

/*! \brief A flag that is up; `by` is the instruction that set it. */
template <class S>
struct Flag {
  S set;
  const TimeDesc* by = nullptr;

  Flag() = default;
  Flag(S s, const TimeDesc* d) : set(s), by(d) {}
};

template <>
struct Flag<PlainStamp> {
  PlainStamp set;
  static constexpr const TimeDesc* by = nullptr;

  Flag() = default;
  Flag(PlainStamp s, const TimeDesc*) : set(s) {}
};

/*! \brief Sets of one flag that no wait has taken yet. Waits that wait for nothing take the set that was theirs. */
template <class S>
struct FlagQueue {
  Ring<Flag<S>> up;
  int taken = 0;  // sets to come that belong to waits that have not waited

  void raise(Flag<S> f) {
    if (taken > 0) {
      --taken;
    } else {
      up.push() = f;
    }
  }
  void skip() {
    if (up.empty()) {
      ++taken;
    } else {
      up.pop();
    }
  }
  Flag<S> take() {
    const Flag<S> f = up.front();
    up.pop();
    return f;
  }
};

template <class S>
struct PipeSim {
  Ring<Queued<S>> queue;
  S free;                   // may start its next instruction
  S done;                   // all instructions so far are complete
  bool in_flight = false;   // the head moves GM data
  S start;                  // of the head in flight
  double lost[2] = {};      // of the head in flight, to other transfers: at HBM, at L2
  double second_phase = 0;  // L2 bytes still to move after the HBM part
  bool write = false;
};

/*! \brief Where a core stands when it has issued a group of a repeat. */
struct Beat {
  double now = 0;  // of the scalar pipe
  std::array<double, kNumSlots> done{};
  std::array<size_t, kNumSlots> queued{};
  uint64_t up = 0;  // digest of the flags that are up
};

/*! \brief When the groups of a repeat were issued, and what a core did in the last of them. */
class Rhythm {
 public:
  void begin(const Beat& beat, const CoreTime& so_far) {
    beats_.assign(1, beat);
    start_ = so_far;
    now_ = last_traffic_ = {};
  }
  void add(const Beat& beat, const CoreTime& so_far) {
    beats_.push_back(beat);
    last_ = so_far;
    add_times(last_, start_, -1);
    start_ = so_far;
    last_traffic_ = std::exchange(now_, {});
  }
  /*!
   * \brief Mean cycles of the last groups, 0 when there is no rhythm yet. Where `known` cycles are expected one group
   * is enough, else as many groups before them must have taken as long. In both cases the pipes must have kept up.
   */
  double steady(double known, double tolerance) const {
    if (known > 0 && beats_.size() > 2 && std::abs(mean(last(), 1) - known) <= known * tolerance) {
      if (keeps_up(1, known * tolerance)) return known;
    }
    for (size_t window = 4; 2 * window < beats_.size() && window <= kLongest; window *= 2) {
      const double now = mean(last(), window), before = mean(last() - window, window);
      if (std::abs(now - before) <= now * tolerance && keeps_up(window, now * tolerance)) return now;
    }
    return 0;
  }
  void moves(const Traffic& t) {
    now_.hbm_read += t.hbm_read;
    now_.hbm_write += t.hbm_write;
  }
  /*! \brief Bytes the last group moved from and to HBM. */
  const Traffic& moved() const { return last_traffic_; }
  /*! \brief Account for `groups` more like the last, of `counts` instructions: not all of those may have been in it. */
  void repeat(int64_t groups, const std::array<int64_t, kNumSlots>& counts, CoreTime& time) {
    CoreTime more;
    for (size_t slot = 0; slot < kNumSlots; ++slot) {
      more.count[slot] = counts[slot];
      const double share =
          static_cast<double>(counts[slot]) / std::max<double>(1, static_cast<double>(last_.count[slot]));
      const bool scalar = slot == kS || last_.count[slot] == 0;  // the scalar pipe also issues what is not counted
      more.busy[slot] = last_.busy[slot] * (scalar ? 1 : share);
      more.assumed[slot] = last_.assumed[slot] * (scalar ? 1 : share);
    }
    add_times(time, more, groups);
    add_times(start_, more, groups);
  }

 private:
  static constexpr size_t kLongest = 8;

  size_t last() const { return beats_.size() - 1; }
  double mean(size_t end, size_t groups) const {
    return (beats_[end].now - beats_[end - groups].now) / static_cast<double>(groups);
  }
  /*!
   * \brief Whether the pipes are as far behind the scalar pipe as they were `window` groups ago. The flags that are up
   * are then the same ones, too: a loop that lowers flags of before it goes on until the last one is down.
   */
  bool keeps_up(size_t window, double tolerance) const {
    const Beat &now = beats_[last()], &before = beats_[last() - window];
    if (now.up != before.up) return false;
    for (int slot = 0; slot < kNumSlots; ++slot) {
      if (now.queued[slot] != before.queued[slot]) return false;
      const double moved = now.done[slot] - before.done[slot];
      if (moved > 0 && std::abs(moved - (now.now - before.now)) > tolerance * static_cast<double>(window)) return false;
    }
    return true;
  }
  static void add_times(CoreTime& to, const CoreTime& t, int64_t times) {
    for (int slot = 0; slot < kNumSlots; ++slot) {
      to.busy[slot] += static_cast<double>(times) * t.busy[slot];
      to.assumed[slot] += static_cast<double>(times) * t.assumed[slot];
      to.count[slot] += times * t.count[slot];
    }
  }

  std::vector<Beat> beats_;
  CoreTime start_, last_;
  Traffic now_, last_traffic_;
};

template <class S>
struct CoreSim {
  TimedCore info;
  size_t next = 0;  // item the scalar pipe issues next
  size_t access = 0;
  uint32_t repeat = 0;  // of the record: the one `next` is in, or the first behind it
  int64_t again = 0;
  Rhythm rhythm;       // of this repeat
  double skipped = 0;  // cycles it was moved on by
  S now;               // of the scalar pipe
  PipeSim<S> pipe[kNumSlots];
  std::vector<FlagQueue<S>> flags;       // by event code and id
  std::map<int, FlagQueue<S>> counters;  // cross-core flags that were delivered
  uint64_t up = 0;                       // digest of both: equal where equally many of each are up

  void raise_flag(const TimeDesc& d, Flag<S> f) {
    flags[static_cast<size_t>(d.event)].raise(f);
    up += weight(d.event, false);
  }
  void raise_counter(int id, Flag<S> f) {
    counters[id].raise(f);
    up += weight(id, true);
  }
  Flag<S> take(FlagQueue<S>& from, const TimeDesc& d) {
    up -= weight(d.event, d.kind == OpKind::kCrossWait);
    return from.take();
  }

 private:
  static uint64_t weight(int id, bool cross) {
    const uint64_t h = (static_cast<uint64_t>(id) * 2 + static_cast<uint64_t>(cross) + 1) * 0x9E3779B97F4A7C15ull;
    return (h ^ h >> 29) * 0xC2B2AE3D27D4EB4Full;
  }
};

/*!
 * \brief The replay.
 *
 * Where all cores are in repeats, have a steady rhythm and the same one, all are moved on by the same number of
 * iterations: what is in flight, and how the cores stand to each other, is then as it was, and the clock is later.
 *
 * With `kWhy` it notes what observers want; without, it is as fast as it can be.
 */
template <bool kWhy>
class Replay {
  using Stamp = std::conditional_t<kWhy, tla::Stamp, PlainStamp>;
  using Flag = tla::Flag<Stamp>;
  using FlagQueue = tla::FlagQueue<Stamp>;
  using Queued = tla::Queued<Stamp>;
  using PipeSim = tla::PipeSim<Stamp>;
  using CoreSim = tla::CoreSim<Stamp>;

 public:
  Replay(const ChipParams& chip, const std::vector<TimedCore>& cores, L2Model& l2, Observers observers, Poll& poll)
      : chip_(chip),
        trace_(observers.trace),
        causes_(observers.causes),
        usage_(observers.usage),
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
    phase_alone_.resize(cores.size() * kOwnersPerCore);
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
      arrive(e, take_set(e));
    }
    return true;
  }

  void breathe() {
    if (poll_.due()) poll_();
  }

  void schedule(double time, int core, int slot, int mode, int id) {
    events_.push({time, order_++, core * kOwnersPerCore + slot, static_cast<int16_t>(mode), static_cast<int16_t>(id)});
  }

  void schedule_set(Stamp at, int core, int slot, const TimeDesc& d) {
    if constexpr (kWhy) sets_.emplace(order_, Flag{at, &d});
    schedule(at.time, core, slot, d.mode, d.event);
  }

  Flag take_set(const Event& e) {
    if constexpr (kWhy) {
      const Flag set = sets_.at(e.order);
      sets_.erase(e.order);
      return set;
    }
    return {{e.time, 0}, nullptr};
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
    const TimeDesc& d = (*c.info.descs)[id];
    if (d.slot != kS) {
      PipeSim& p = c.pipe[d.slot];
      if (static_cast<int>(p.queue.size()) >= chip_.queue_depth) return false;
      const Stamp room = last_pop_[static_cast<size_t>(index)][d.slot];
      if (room.time > c.now.time) hold_scalar(index, c, room, Wait::kQueue, d, nullptr);
      spend(index, kS, c.now.time, chip_.issue_cycles, assumed_issue(), d, false);
      const double end = c.now.time + chip_.issue_cycles;
      c.now = {end, kWhy ? causes_->issues(index, d, c.now, end) : 0};
      p.queue.push() = {id, c.access, c.now};
    } else if (!execute_scalar(index, c, d)) {
      return false;
    }
    c.access += d.num_accesses;
    ++c.next;
    const auto& repeats = c.info.record->repeats;
    if (c.repeat < repeats.size() && c.next >= repeats[c.repeat].item) follow_repeat(index, c, repeats[c.repeat]);
    return true;
  }

  // ---- repeats
  void follow_repeat(int index, CoreSim& c, const Repeat& repeat) {
    const CoreTime& so_far = report_.cores[static_cast<size_t>(index)];
    if (c.next == repeat.item) c.rhythm.begin(beat(c), so_far);
    if (c.next != repeat.item_end) return;
    c.rhythm.add(beat(c), so_far);
    if (c.again == repeat.count) {
      ++c.repeat;
      c.again = 0;
      const auto& repeats = c.info.record->repeats;
      if (c.repeat < repeats.size() && repeats[c.repeat].item == c.next) c.rhythm.begin(beat(c), so_far);
      return;
    }
    ++c.again;
    c.next = repeat.item;
    if (!kWhy && !trace_) move_on();
  }

  static Beat beat(const CoreSim& c) {
    Beat b;
    b.now = c.now.time;
    b.up = c.up;
    for (int slot = 0; slot < kNumSlots; ++slot) {
      b.done[static_cast<size_t>(slot)] = c.pipe[slot].done.time;
      b.queued[static_cast<size_t>(slot)] = c.pipe[slot].queue.size();
    }
    return b;
  }

  bool finished(const CoreSim& c) const { return c.next >= c.info.record->items.size(); }

  void move_on() {
    if (--tries_after_ > 0) return;
    int64_t left = std::numeric_limits<int64_t>::max(), step = 1;
    double fastest = std::numeric_limits<double>::infinity(), slowest = 0;
    for (const CoreSim& c : sims_) {
      if (finished(c)) continue;
      if (c.repeat >= c.info.record->repeats.size()) return;
      const Repeat& repeat = c.info.record->repeats[c.repeat];
      if (c.next < repeat.item) return;
      const double cycles = steady_cycles(c, repeat);
      if (cycles <= 0) return;
      fastest = std::min(fastest, cycles);
      slowest = std::max(slowest, cycles);
      if (slowest > fastest * (1 + kSteady)) return;
      left = std::min(left, (repeat.count - c.again) * repeat.period);
      step = std::lcm(step, static_cast<int64_t>(repeat.period));
    }
    if (left >= kWorth * step && !l2_.contested()) skip(left / step, step, (fastest + slowest) / 2);
  }

  /*! \brief Cycles an iteration of the loop a core is in takes, 0 when it has not become steady yet. */
  double steady_cycles(const CoreSim& c, const Repeat& repeat) {
    double& known = rhythms_[repeat.digest];
    const double found = c.rhythm.steady(known, kSteady);
    if (found > 0) known = found;
    return found / repeat.period;
  }

  /*! \brief Move all cores on by up to `steps` steps, of `step` iterations of their loops each. */
  void skip(int64_t steps, int64_t step, double cycles) {
    steps = pass_traffic(steps, step);
    tries_after_ = static_cast<int64_t>(sims_.size());
    if (steps == 0) return;
    skipped_ += static_cast<double>(steps * step) * cycles;
    for (size_t i = 0; i < sims_.size(); ++i) {
      CoreSim& c = sims_[i];
      if (finished(c)) continue;
      const int64_t groups = steps * step / c.info.record->repeats[c.repeat].period;
      c.again += groups;
      c.access += static_cast<size_t>(groups) * c.info.record->repeats[c.repeat].accesses;
      c.rhythm.repeat(groups, executed(c), report_.cores[i]);
      c.skipped = skipped_;
    }
  }

  /*! \brief Instructions in a group of the repeat a core is in, by pipe. */
  static std::array<int64_t, kNumSlots> executed(const CoreSim& c) {
    std::array<int64_t, kNumSlots> counts{};
    const CoreRecord& record = *c.info.record;
    const Repeat& repeat = record.repeats[c.repeat];
    for (size_t i = repeat.item; i < repeat.item_end; ++i) {
      const TimeDesc& d = (*c.info.descs)[record.items[i]];
      counts[d.slot] += d.kind == OpKind::kExec;
    }
    return counts;
  }

  /*!
   * \brief Pass the traffic of up to `steps` steps through L2, as long as it moves as much from and to HBM as it did.
   * Returns the steps. What is written back is known when a step has passed: the first one that differs is the last.
   */
  int64_t pass_traffic(int64_t steps, int64_t step) {
    Traffic before;
    for (const CoreSim& c : sims_) {
      if (finished(c)) continue;
      const auto groups = static_cast<double>(step / c.info.record->repeats[c.repeat].period);
      before.hbm_read += c.rhythm.moved().hbm_read * groups;
      before.hbm_write += c.rhythm.moved().hbm_write * groups;
    }
    for (int64_t n = 0; n < steps; ++n) {
      breathe();
      double missing = 0, read = 0, all = 0, written_back = 0;
      for_step(n, step, [&](const GmShape& a, int64_t offset) {
        missing += l2_.missing(a, offset);
        (a.write ? all : read) += static_cast<double>(a.bytes());
      });
      all += read;
      // What hits in part has no rhythm: it depends on what everything before has left.
      const double some = read * kSameTraffic;
      if (std::abs(missing - before.hbm_read) > some || (missing > some && missing < read - some)) return n;
      for_step(n, step, [&](const GmShape& a, int64_t offset) { written_back += touch(a, offset).hbm_write; });
      if (std::abs(written_back - before.hbm_write) > all * kSameTraffic) return n + 1;
    }
    return steps;
  }

  /*! \brief Calls `see` for all GM accesses of all cores in the step `n` steps from now. */
  template <typename See>
  void for_step(int64_t n, int64_t step, See see) const {
    for (const CoreSim& c : sims_) {
      if (finished(c)) continue;
      const CoreRecord& record = *c.info.record;
      const Repeat& repeat = record.repeats[c.repeat];
      const size_t all = static_cast<size_t>(step / repeat.period) * repeat.accesses;
      const size_t first = c.access + static_cast<size_t>(n) * all;
      for (size_t i = first; i < first + all; ++i) {
        const GmAccess& a = record.accesses[i];
        see((*c.info.shapes)[a.shape], a.offset);
      }
    }
  }

  Traffic touch(const GmShape& a, int64_t offset) {
    const Traffic t = l2_.touch(a, offset);
    (a.write ? report_.l2_write_bytes : report_.l2_read_bytes) += a.bytes();
    report_.hbm_read_bytes += static_cast<int64_t>(t.hbm_read);
    report_.hbm_write_bytes += static_cast<int64_t>(t.hbm_write);
    return t;
  }

  /*! \brief S goes on with `d` at `until`, which is later than now; `flag` is what it waited for, if it was one. */
  void hold_scalar(int index, CoreSim& c, Stamp until, Wait kind, const TimeDesc& d, const Flag* flag) {
    if constexpr (kWhy) {
      const int32_t set_line = flag != nullptr ? flag->by->line : 0;
      const uint8_t resource = flag != nullptr ? flag->by->slot : kind == Wait::kQueue ? d.slot : kNoResource;
      causes_->scalar_waits(index, {c.info.aic, kS, kind, resource, d.line, set_line}, c.now.time, until.time);
    }
    c.now = until;
  }

  /*! \brief When a wait that begins at `start` sees a flag. */
  Stamp seen(int index, int slot, const TimeDesc& d, Stamp start, const Flag& flag, double cycles) {
    const double end = flag.set.time + cycles;
    if (end <= start.time) return start;
    return {end, kWhy ? causes_->flag(index, slot, d, flag.set, end, d.kind == OpKind::kCrossWait) : 0};
  }

  bool execute_scalar(int index, CoreSim& c, const TimeDesc& d) {
    switch (d.kind) {
      case OpKind::kWaitFlag:
      case OpKind::kCrossWait: {
        const bool cross = d.kind == OpKind::kCrossWait;
        FlagQueue& flags = cross ? c.counters[d.event] : c.flags[static_cast<size_t>(d.event)];
        if (d.waits_for_nothing) {
          flags.skip();
          break;
        }
        if (flags.up.empty()) return false;
        const Flag flag = c.take(flags, d);
        const double cycles = cross ? chip_.cross_core_flag_cycles : chip_.flag_cycles;
        const Stamp at = seen(index, kS, d, c.now, flag, cycles);
        if (at.time > c.now.time) {
          hold_scalar(index, c, at, cross ? Wait::kCross : Wait::kFlag, d, &flag);
        }
        break;
      }
      case OpKind::kBarrier: {
        if (d.waits_for_nothing) break;
        for (const PipeSim& p : c.pipe) {
          if (!p.queue.empty()) return false;
        }
        Stamp all = c.now;
        for (const PipeSim& p : c.pipe) all = later(later(all, p.free), p.done);
        if (all.time > c.now.time) hold_scalar(index, c, all, Wait::kBarrier, d, nullptr);
        break;
      }
      case OpKind::kSetFlag:
        c.raise_flag(d, {c.now, &d});
        break;
      case OpKind::kCrossSet:
        schedule_set(c.now, index, kS, d);
        break;
      default:
        break;
    }
    const double busy = d.busy > 0 ? d.busy : chip_.issue_cycles;
    spend(index, kS, c.now.time, busy, d.busy > 0 ? d.assumed : assumed_issue(), d, d.kind == OpKind::kExec);
    if (kWhy && d.kind == OpKind::kExec) usage_->executes(d, busy);
    const double end = c.now.time + busy;
    uint32_t by = 0;
    if constexpr (kWhy) {
      by = d.busy > 0 ? causes_->executes(index, kS, d, c.now, end, d.assumed) : causes_->issues(index, d, c.now, end);
    }
    c.now = {end, by};
    return true;
  }

  bool execute_head(int index, CoreSim& c, int slot) {
    PipeSim& p = c.pipe[slot];
    if (p.queue.empty() || p.in_flight) return false;
    const Queued q = p.queue.front();
    const TimeDesc& d = (*c.info.descs)[q.desc];
    const Stamp start = later(p.free, q.ready);
    switch (d.kind) {
      case OpKind::kExec: {
        if (d.num_accesses != 0) {
          p.in_flight = true;
          p.start = start;
          schedule(start.time, index, slot, -1, 0);
          return false;
        }
        spend(index, slot, start.time, d.busy, d.assumed, d, true);
        if constexpr (kWhy) usage_->executes(d, d.busy);
        ran_dry(index, c, slot, d, start);
        const double end = start.time + d.busy;
        p.free = {end, kWhy ? causes_->executes(index, slot, d, start, end, d.assumed) : 0};
        p.done = later(p.done, {end + d.latency, p.free.by});
        break;
      }
      case OpKind::kSetFlag:
        c.raise_flag(d, {later(start, p.done), &d});
        break;
      case OpKind::kWaitFlag: {
        FlagQueue& flags = c.flags[static_cast<size_t>(d.event)];
        if (d.waits_for_nothing) {
          flags.skip();
          break;
        }
        if (flags.up.empty()) return false;
        const Flag flag = c.take(flags, d);
        ran_dry(index, c, slot, d, start);
        p.free = seen(index, slot, d, start, flag, chip_.flag_cycles);
        if constexpr (kWhy) {
          causes_->waits(reason(c, slot, Wait::kFlag, flag.by->slot, d.line, flag.by->line), start.time, p.free.time);
        }
        break;
      }
      case OpKind::kBarrier:
        if (d.waits_for_nothing) break;
        ran_dry(index, c, slot, d, start);
        p.free = later(start, p.done);
        if constexpr (kWhy) {
          causes_->waits(reason(c, slot, Wait::kBarrier, kNoResource, d.line, 0), start.time, p.free.time);
        }
        break;
      case OpKind::kCrossSet:
        schedule_set(later(start, p.done), index, slot, d);
        break;
      default:
        break;
    }
    pop(index, c, slot, start);
    return true;
  }

  static Reason reason(const CoreSim& c, int slot, Wait kind, uint8_t resource, int32_t line, int32_t set_line) {
    return {c.info.aic, static_cast<uint8_t>(slot), kind, resource, line, set_line};
  }

  /*! \brief `d` starts now; until then its pipe had nothing to do. */
  void ran_dry(int index, const CoreSim& c, int slot, const TimeDesc& d, Stamp start) {
    if constexpr (kWhy) causes_->runs_dry(index, c.info.aic, slot, d.line, c.pipe[slot].free.time, start.time);
  }

  void pop(int index, CoreSim& c, int slot, Stamp time) {
    c.pipe[slot].queue.pop();
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
    const TimeDesc& d = (*c.info.descs)[q.desc];
    Traffic sum;
    for (uint32_t i = 0; i < d.num_accesses; ++i) {
      const GmAccess& access = c.info.record->accesses[q.access + i];
      const GmShape& a = (*c.info.shapes)[access.shape];
      const Traffic t = touch(a, access.offset);
      sum.hbm_read += t.hbm_read;
      sum.hbm_write += t.hbm_write;
      sum.l2 += t.l2;
      if constexpr (kWhy) usage_->moves(d, a, access.offset, t);
      p.write = a.write;
    }
    p.second_phase = sum.l2;
    if constexpr (kWhy) p.lost[0] = p.lost[1] = 0;
    const double hbm = sum.hbm_read + sum.hbm_write;
    c.rhythm.moves(sum);
    if (hbm > 0) {
      begin_phase(kHbm, owner, now, hbm, d);
    } else {
      second_phase(owner, now);
    }
  }

  void begin_phase(Resource r, int owner, double now, double bytes, const TimeDesc& d) {
    constexpr double kUnlimited = 1e12;
    const double rate = r == kHbm ? d.hbm_rate : d.gm_rate;
    shared_[r].start(now, bytes, rate > 0 ? rate : kUnlimited, owner);
    phase_start_[owner] = now;
    if constexpr (kWhy) phase_alone_[owner] = rate > 0 ? bytes / rate : 0;
  }

  void phase_done(int owner, double now, Resource r) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    if constexpr (kWhy) {
      sims_[static_cast<size_t>(index)].pipe[slot].lost[r == kHbm ? 0 : 1] =
          std::max(0.0, now - phase_start_[owner] - phase_alone_[owner]);
    }
    if (shared_assumed_[r]) report_.cores[static_cast<size_t>(index)].assumed[slot] += now - phase_start_[owner];
    if (r == kHbm) {
      second_phase(owner, now);
    } else {
      end_transfer(owner, now);
    }
  }

  const TimeDesc& head(int index, int slot) const {
    const CoreSim& c = sims_[static_cast<size_t>(index)];
    return (*c.info.descs)[c.pipe[slot].queue.front().desc];
  }

  void second_phase(int owner, double now) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    PipeSim& p = sims_[static_cast<size_t>(index)].pipe[slot];
    if (p.second_phase <= 0) {
      end_transfer(owner, now);
      return;
    }
    begin_phase(p.write ? kL2Write : kL2Read, owner, now, p.second_phase, head(index, slot));
  }

  void end_transfer(int owner, double now) {
    const int index = owner / kOwnersPerCore, slot = owner % kOwnersPerCore;
    CoreSim& c = sims_[static_cast<size_t>(index)];
    PipeSim& p = c.pipe[slot];
    const TimeDesc& d = head(index, slot);
    // What the pipe needs for the instruction itself goes on while bytes move.
    const double start = p.start.time, end = std::max(now, start + d.busy);
    spend(index, slot, start, end - start, end > now ? d.assumed : 0, d, true);
    if constexpr (kWhy) usage_->executes(d, end - start);
    ran_dry(index, c, slot, d, p.start);
    p.free = {end, kWhy ? transferred(index, c, slot, d, end) : 0};
    p.done = later(p.done, {end + d.latency, p.free.by});
    p.in_flight = false;
    pop(index, c, slot, p.start);
    run_core(index);
  }

  /*! \brief Note a transfer that ends, and what it lost to others. */
  uint32_t transferred(int index, const CoreSim& c, int slot, const TimeDesc& d, double end) {
    const PipeSim& p = c.pipe[slot];
    const double took = end - p.start.time, all = p.lost[0] + p.lost[1];
    // What was lost while the instruction itself was not ready either cost nothing.
    const double some = std::min(all, took - d.busy);
    const double lost = some > kRounding ? some : 0;
    const double at[2] = {all > 0 ? lost * p.lost[0] / all : 0, all > 0 ? lost * p.lost[1] / all : 0};
    causes_->waits(reason(c, slot, Wait::kBandwidth, kResourceHbm, d.line, 0), 0, at[0]);
    causes_->waits(reason(c, slot, Wait::kBandwidth, kResourceL2, d.line, 0), 0, at[1]);
    const double own = took - lost <= d.busy ? d.assumed : 0;  // else bytes decide, at rates that were measured
    const double assumed =
        own + (shared_assumed_[kHbm] ? at[0] : 0) + (shared_assumed_[p.write ? kL2Write : kL2Read] ? at[1] : 0);
    return causes_->executes(index, slot, d, p.start, end, assumed, lost);
  }

  // ---- cross-core flags
  void arrive(const Event& e, Flag now) {
    const int setter = e.owner / kOwnersPerCore, mode = e.mode, id = e.id;
    const TimedCore& s = sims_[static_cast<size_t>(setter)].info;
    const auto key = std::make_tuple(mode, mode == 0 ? 0 : s.block, s.aic, id);
    auto& arrivals = arrivals_[key];
    arrivals[setter].push_back(now);
    size_t members = 0;
    for (const CoreSim& c : sims_) members += c.info.aic == s.aic && (mode == 0 || c.info.block == s.block);
    if (arrivals.size() < members) return;
    Flag latest = now;
    for (auto& [core, sets] : arrivals) {
      if (sets.front().set.time > latest.set.time) latest = sets.front();
    }
    for (auto it = arrivals.begin(); it != arrivals.end();) {
      it->second.pop_front();
      it = it->second.empty() ? arrivals.erase(it) : std::next(it);
    }
    for (size_t i = 0; i < sims_.size(); ++i) {
      const TimedCore& r = sims_[i].info;
      if ((mode != 0 && r.block != s.block) || (r.aic == s.aic) == (mode == 2)) continue;
      sims_[i].raise_counter(id, latest);
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

  /*! \brief What pipes do after their last instruction, and the critical path. */
  void finish_causes(Stamp last) {
    for (const CoreSim& c : sims_) {
      const uint32_t slots = slots_of_core(c.info.aic);
      for (int slot = 0; slot < kNumSlots; ++slot) {
        const double ended = slot == kS ? c.now.time : c.pipe[slot].free.time;
        if ((slots >> slot & 1) != 0) causes_->waits(reason(c, slot, Wait::kEnd, kNoResource, 0, 0), ended, last.time);
      }
    }
    causes_->follow(last);
  }

  void finish() {
    Stamp last;
    for (size_t i = 0; i < sims_.size(); ++i) {
      CoreSim& c = sims_[i];
      Stamp end = c.now;
      bool stuck = c.next < c.info.record->items.size();
      for (const PipeSim& p : c.pipe) {
        end = later(later(end, p.free), p.done);
        stuck |= !p.queue.empty();
      }
      end.time += c.skipped;
      report_.cores[i].end = end.time;
      last = later(last, end);
      if (stuck && report_.stuck.empty()) {
        report_.stuck = std::string(c.info.aic ? "AIC" : "AIV") + " core of block " + std::to_string(c.info.block);
      }
    }
    report_.cycles = last.time;
    if constexpr (kWhy) finish_causes(last);
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

  static constexpr double kSteady = 0.002;       // of the cycles of a group
  static constexpr double kSameTraffic = 0.005;  // of the bytes a step moves
  static constexpr int64_t kWorth = 2;           // steps

  const ChipParams& chip_;
  const bool trace_;
  Causes* const causes_;
  Usage* const usage_;
  Poll& poll_;
  const bool issue_assumed_ = chip_.is_assumed("issue_cycles");
  TimeReport report_;
  L2Model& l2_;
  SharedBandwidth shared_[kNumResources];
  bool shared_assumed_[kNumResources];
  std::vector<CoreSim> sims_;
  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  std::unordered_map<uint64_t, double> rhythms_;  // cycles of a group that was steady, by its items
  double skipped_ = 0;                            // cycles all cores were moved on by
  int64_t tries_after_ = 0;                       // groups of all cores until it is worth to look at traffic again
  std::vector<std::array<Stamp, kNumSlots>> last_pop_;  // by core: when a full queue last let an item go
  std::vector<double> phase_start_, phase_alone_;       // by owner
  std::map<std::tuple<int, int, bool, int>, std::map<int, std::deque<Flag>>> arrivals_;
  std::unordered_map<uint64_t, Flag> sets_;  // cross-core flags on their way, by the order of their events
};

}  // namespace

TimeReport simulate_time(const ChipParams& chip, const std::vector<TimedCore>& cores, L2Model& l2, Observers observers,
                         Poll& poll) {
  if (observers.causes != nullptr && observers.usage != nullptr) {
    return Replay<true>(chip, cores, l2, observers, poll).run();
  }
  return Replay<false>(chip, cores, l2, observers, poll).run();
}

void warm_l2(const std::vector<TimedCore>& cores, L2Model& l2) {
  size_t most = 0;
  for (const TimedCore& c : cores) most = std::max(most, c.record->accesses.size());
  std::vector<size_t> done(cores.size());
  for (size_t step = 1; step <= most; ++step) {
    for (size_t i = 0; i < cores.size(); ++i) {
      const std::vector<GmAccess>& all = cores[i].record->accesses;
      for (const size_t end = all.size() * step / most; done[i] < end; ++done[i]) {
        l2.touch((*cores[i].shapes)[all[done[i]].shape], all[done[i]].offset);
      }
    }
  }
}

}  // namespace tla
