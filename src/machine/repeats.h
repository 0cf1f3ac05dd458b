/*
 * What a program issues again and again. Of loops whose iterations repeat in groups (proven by the compiler,
 * tilelang_ascend/sim/repeats.py) a run of times alone issues two groups and counts the others.
 */
#ifndef TLA_MACHINE_REPEATS_H_
#define TLA_MACHINE_REPEATS_H_

#include <cstdint>

#include "recorder.h"

namespace tla {

/*! \brief GM access number `access` of a record, the `again`-th time that `repeat` issues it. */
inline GmTraffic repeated(const CoreRecord& r, const Repeat& repeat, size_t access, int64_t again) {
  GmTraffic a = r.accesses[access];
  a.offset += again * r.distances[repeat.distance + access - repeat.access];
  return a;
}

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

/*! \brief All GM accesses of a core in order, those of repeats included. */
class AccessWalk {
 public:
  explicit AccessWalk(const CoreRecord& record) : r_(record), size_(static_cast<int64_t>(record.accesses.size())) {
    for (const Repeat& repeat : r_.repeats) size_ += repeat.count * accesses(repeat);
  }
  int64_t size() const { return size_; }
  GmTraffic next() {
    while (repeat_ < r_.repeats.size() && at_ == r_.repeats[repeat_].access_end) {
      const Repeat& repeat = r_.repeats[repeat_];
      if (again_ < repeat.count && accesses(repeat) > 0) {
        at_ = repeat.access;
        ++again_;
      } else {
        ++repeat_;
        again_ = 0;
      }
    }
    const size_t access = at_++;
    return again_ == 0 ? r_.accesses[access] : repeated(r_, r_.repeats[repeat_], access, again_);
  }

 private:
  static int64_t accesses(const Repeat& repeat) { return static_cast<int64_t>(repeat.access_end - repeat.access); }

  const CoreRecord& r_;
  int64_t size_;
  size_t at_ = 0, repeat_ = 0;
  int64_t again_ = 0;
};

/*! \brief Follows the loop a core is in, and tells its program which iterations need not be issued. */
class LoopRecorder {
 public:
  /*!
   * \brief At the end of iteration `k` of `loop`, which runs to `end`: the iteration to go on with. When a group of
   * `period` iterations has issued what the one before did, it is entered in `record` as a `Repeat`.
   */
  int64_t next(int32_t loop, int64_t k, int64_t end, int32_t period, CoreRecord& record) {
    const int64_t following = k + 1;
    if (loop != loop_ || k != expected_) {
      begin(loop, following, record);
      return following;
    }
    expected_ = following;
    if ((following - start_) % period != 0) return following;
    const Mark now = {record.items.size(), record.accesses.size()};
    if (groups_++ > 0 && same(record, now)) {
      const int64_t left = (end - following) / period;
      loop_ = -1;
      if (left < kWorth) return following;
      enter(record, now, left, period);
      return following + left * period;
    }
    last_ = first_;
    first_ = now;
    return following;
  }

 private:
  static constexpr int64_t kWorth = 4;
  struct Mark {
    size_t item, access;
  };

  void begin(int32_t loop, int64_t following, const CoreRecord& record) {
    loop_ = loop;
    start_ = expected_ = following;
    groups_ = 0;
    first_ = {record.items.size(), record.accesses.size()};
  }

  /*! \brief Whether the group from `first_` to `now` issued what the one from `last_` to `first_` did. */
  bool same(const CoreRecord& r, const Mark& now) const {
    const size_t items = now.item - first_.item, accesses = now.access - first_.access;
    if (first_.item - last_.item != items || first_.access - last_.access != accesses) return false;
    for (size_t i = 0; i < items; ++i) {
      if (r.items[first_.item + i] != r.items[last_.item + i]) return false;
    }
    for (size_t i = 0; i < accesses; ++i) {
      const GmTraffic &a = r.accesses[last_.access + i], &b = r.accesses[first_.access + i];
      if (a.tensor != b.tensor || a.write != b.write || a.count != b.count || a.stride != b.stride || a.len != b.len) {
        return false;
      }
    }
    return true;
  }

  void enter(CoreRecord& r, const Mark& now, int64_t count, int32_t period) const {
    const size_t accesses = now.access - first_.access;
    uint64_t digest = 0;
    for (size_t i = first_.item; i < now.item; ++i) digest = (digest ^ r.items[i]) * 0x9E3779B97F4A7C15ull + 1;
    r.repeats.push_back({first_.item, now.item, first_.access, now.access, count, period, r.distances.size(), digest});
    for (size_t i = 0; i < accesses; ++i) {
      r.distances.push_back(r.accesses[first_.access + i].offset - r.accesses[last_.access + i].offset);
    }
  }

  int32_t loop_ = -1;
  int64_t start_ = 0, expected_ = 0;  // first iteration of the first group; iteration that comes next
  int64_t groups_ = 0;                // complete ones
  Mark last_{}, first_{};             // where the group before the present one starts, and the present one
};

}  // namespace tla

#endif  // TLA_MACHINE_REPEATS_H_
