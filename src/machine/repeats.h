/*
 * What a program issues again and again. Of loops whose iterations repeat in groups (proven by the compiler,
 * tilelang_ascend/sim/repeats.py) a run of times alone issues two groups. Of the others it sees what they reach of GM.
 */
#ifndef TLA_MACHINE_REPEATS_H_
#define TLA_MACHINE_REPEATS_H_

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "recorder.h"

namespace tla {

/*! \brief Calls `see` with all items of a core in order, those of repeats included. */
template <typename See>
void for_items(const CoreRecord& r, See see) {
  size_t next = 0;
  const auto pass = [&](size_t end) {
    for (; next < end; ++next) see(r.items[next]);
  };
  for (const Repeat& repeat : r.repeats) {
    for (int64_t again = 0; again < repeat.count; ++again) {
      pass(repeat.item_end);
      next = repeat.item;
    }
    pass(repeat.item_end);
  }
  pass(r.items.size());
}

/*! \brief Follows the loop a core is in, and tells its program which iterations need only say what they reach of GM. */
class LoopRecorder {
 public:
  /*! \brief Whether the program is in such an iteration. */
  bool counting() const { return counting_ > 0; }

  /*!
   * \brief At the end of iteration `k` of `loop`, which runs to `end`. When a group of `period` iterations has issued
   * what the one before did, it is entered in `record` as a `Repeat`, and the groups that are left are counted.
   */
  void next(int32_t loop, int64_t k, int64_t end, int32_t period, CoreRecord& record) {
    if (counting_ > 0) return count(period, record);
    const int64_t following = k + 1;
    if (loop != loop_ || k != expected_) return begin(loop, following, record);
    expected_ = following;
    if ((following - start_) % period != 0) return;
    const Mark now = {record.items.size(), record.accesses.size()};
    if (groups_++ > 0 && same(record, now)) {
      const int64_t left = (end - following) / period;
      loop_ = -1;
      if (left < kWorth) return;
      enter(record, now, left, period);
      counting_ = left * period;
      return;
    }
    last_ = first_;
    first_ = now;
  }

  /*!
   * \brief The program ends here, wherever it is. A core that stopped in an iteration that was counted has told less of
   * GM than `record` says that it reaches: its last repeat ends with the last group that is complete.
   */
  void end(CoreRecord& record) {
    if (counting_ == 0) return;
    Repeat& repeat = record.repeats.back();
    repeat.count -= (counting_ + repeat.period - 1) / repeat.period;
    record.accesses.resize(accesses_ + static_cast<size_t>(repeat.count) * repeat.accesses);
    counting_ = 0;
  }

 private:
  static constexpr int64_t kWorth = 16;
  struct Mark {
    size_t item, access;
  };

  void begin(int32_t loop, int64_t following, const CoreRecord& record) {
    loop_ = loop;
    start_ = expected_ = following;
    groups_ = 0;
    first_ = {record.items.size(), record.accesses.size()};
  }

  void count(int32_t period, const CoreRecord& record) {
    if (--counting_ % period != 0) return;
    const Repeat& repeat = record.repeats.back();
    const auto groups = static_cast<size_t>(repeat.count - counting_ / period);
    if (record.accesses.size() != accesses_ + groups * repeat.accesses) {
      throw std::logic_error("a loop that repeats reaches GM more or less often than before");
    }
  }

  /*! \brief Whether the group from `first_` to `now` issued what the one from `last_` to `first_` did. */
  bool same(const CoreRecord& r, const Mark& now) const {
    const size_t items = now.item - first_.item, accesses = now.access - first_.access;
    if (first_.item - last_.item != items || first_.access - last_.access != accesses) return false;
    const auto item = [&](const Mark& m) { return r.items.begin() + static_cast<int64_t>(m.item); };
    const auto access = [&](const Mark& m) { return r.accesses.begin() + static_cast<int64_t>(m.access); };
    return std::equal(item(first_), item(now), item(last_)) &&
           std::equal(access(first_), access(now), access(last_),
                      [](const GmAccess& a, const GmAccess& b) { return a.shape == b.shape; });
  }

  void enter(CoreRecord& r, const Mark& now, int64_t count, int32_t period) {
    uint64_t digest = 0;
    for (size_t i = first_.item; i < now.item; ++i) digest = (digest ^ r.items[i]) * 0x9E3779B97F4A7C15ull + 1;
    r.repeats.push_back({first_.item, now.item, now.access - first_.access, count, period, digest});
    accesses_ = now.access;
  }

  int32_t loop_ = -1;
  int64_t start_ = 0, expected_ = 0;  // first iteration of the first group; iteration that comes next
  int64_t groups_ = 0;                // complete ones
  Mark last_{}, first_{};             // where the group before the present one starts, and the present one
  int64_t counting_ = 0;              // iterations still to be counted
  size_t accesses_ = 0;               // in front of the first of them
};

}  // namespace tla

#endif  // TLA_MACHINE_REPEATS_H_
