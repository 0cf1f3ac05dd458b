/* What a run leaves behind for the time model and for the comparison of streams. */
#ifndef TLA_MACHINE_RECORDER_H_
#define TLA_MACHINE_RECORDER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "instr.h"
#include "op_info.h"

namespace tla {

/*! \brief What tells timed items apart, but for their GM addresses. */
struct TimeKey {
  OpKind kind = OpKind::kExec;
  uint8_t slot = kS;  //!< pipe whose queue takes the item
  int16_t event = 0;  //!< kSetFlag, kWaitFlag: event code * ids + id; kCrossSet, kCrossWait: flag id
  int16_t mode = 0;   //!< kCrossSet: mode
  int32_t op = 0, line = 0;
  float busy = 0, latency = 0, gm_rate = 0, hbm_rate = 0, assumed = 0, work = 0;  //!< as in Cost
  uint32_t num_accesses = 0;  //!< GM accesses, in order, in CoreRecord::accesses

  bool operator==(const TimeKey& o) const {
    return kind == o.kind && slot == o.slot && event == o.event && mode == o.mode && op == o.op && line == o.line &&
           busy == o.busy && latency == o.latency && gm_rate == o.gm_rate && hbm_rate == o.hbm_rate &&
           assumed == o.assumed && work == o.work && num_accesses == o.num_accesses;
  }
};

/*! \brief Everything about a timed item but its GM addresses; equal items of all cores share one. */
struct TimeDesc : TimeKey {
  float assumed_latency = 0, conflict = 0, peak = 0;  //!< as in Cost: they follow from the rest
  bool waits_for_nothing = false;  //!< kWaitFlag, kCrossWait, kBarrier: only in what-if replays (what_if.h)

  TimeDesc(const TimeKey& key, const Cost& cost)
      : TimeKey(key),
        assumed_latency(static_cast<float>(cost.assumed_latency)),
        conflict(static_cast<float>(cost.conflict)),
        peak(static_cast<float>(cost.peak)) {}
};

/*! \brief Pool of distinct values, numbered in the order in which they come. */
template <typename T>
class Pool {
 public:
  /*! \brief Number of the value that equals `key`; `make` makes it where it is new. */
  template <typename Key, typename Make>
  uint32_t id(const Key& key, uint64_t hash, Make make) {
    uint32_t& fast = recent_[hash % kRecent];
    if (fast < all.size() && all[fast] == key) return fast;
    auto& bucket = buckets_[hash];
    const auto known = std::find_if(bucket.begin(), bucket.end(), [&](uint32_t i) { return all[i] == key; });
    if (known != bucket.end()) return fast = *known;
    bucket.push_back(static_cast<uint32_t>(all.size()));
    all.push_back(make());
    return fast = bucket.back();
  }
  std::vector<T> all;

 private:
  static constexpr size_t kRecent = 1024;
  uint32_t recent_[kRecent] = {};
  std::unordered_map<uint64_t, std::vector<uint32_t>> buckets_;
};

/*! \brief Distinct descriptions; the recorded stream of a core is then four bytes an item. */
class Interner {
 public:
  /*! \brief Of an item; `cost` is what its key does not hold. */
  uint32_t id(const TimeKey& d, const Cost& cost) {
    return pool_.id(d, hash(d), [&] { return TimeDesc(d, cost); });
  }
  std::vector<TimeDesc> take() { return std::move(pool_.all); }

 private:
  static size_t hash(const TimeKey& d) {
    uint32_t busy;
    std::memcpy(&busy, &d.busy, sizeof(busy));
    uint64_t h = static_cast<uint64_t>(d.op) * 0x9E3779B97F4A7C15ull;
    h = (h ^ static_cast<uint64_t>(d.line)) * 0xC2B2AE3D27D4EB4Full;
    h = (h ^ busy ^ static_cast<uint64_t>(static_cast<uint16_t>(d.event)) << 32) * 0x165667B19E3779F9ull;
    return static_cast<size_t>(h ^ h >> 29);
  }

  Pool<TimeDesc> pool_;
};

/*!
 * \brief Items of instructions that were issued before, by their words. What works on chip costs as much whenever its
 * words are the same; counting bank conflicts of every repeat again would take most of the time of a long run.
 */
class KnownItems {
 public:
  /*! \brief The item of an equal instruction, null where it has to be described. */
  const uint32_t* find(const Instr& instr) const {
    const Entry& e = entries_[place(instr)];
    const bool equal = e.nargs == instr.nargs && e.op == instr.op && e.line == instr.line &&
                       std::memcmp(e.args, instr.args, sizeof(int64_t) * static_cast<size_t>(instr.nargs)) == 0;
    return equal ? &e.id : nullptr;
  }
  void add(const Instr& instr, uint32_t id) {
    if (instr.nargs > kMostArgs) return;
    Entry& e = entries_[place(instr)];
    e.op = instr.op;
    e.line = instr.line;
    e.nargs = instr.nargs;
    e.id = id;
    std::memcpy(e.args, instr.args, sizeof(int64_t) * static_cast<size_t>(instr.nargs));
  }

 private:
  static constexpr size_t kEntries = 4096;
  static constexpr int kMostArgs = 24;
  struct Entry {
    int32_t op = 0, line = 0, nargs = -1;
    uint32_t id = 0;
    int64_t args[kMostArgs];
  };
  static size_t place(const Instr& instr) {
    uint64_t h = static_cast<uint64_t>(instr.op) << 32 ^ static_cast<uint64_t>(instr.line);
    for (int i = 0; i < instr.nargs; ++i) h = (h ^ static_cast<uint64_t>(instr.args[i])) * 0x9E3779B97F4A7C15ull;
    return static_cast<size_t>(h >> 40) % kEntries;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

/*! \brief What GM accesses have in common that differ by where they are: `count` pieces of `len` bytes, `stride` apart.
 */
struct GmShape {
  int32_t tensor = -1;  //!< position in GmMap::tensors(), -1: outside of every tensor
  bool write = false;
  int64_t count = 0, stride = 0, len = 0;

  int64_t bytes() const { return count * len; }
  bool operator==(const GmShape& o) const {
    return tensor == o.tensor && write == o.write && count == o.count && stride == o.stride && len == o.len;
  }
};

/*! \brief Distinct shapes: a launch has few of them, and millions of accesses. */
class ShapePool {
 public:
  uint32_t id(const GmShape& shape) {
    const auto n = static_cast<uint64_t>(shape.tensor) << 1 | static_cast<uint64_t>(shape.write);
    uint64_t h = n * 0x9E3779B97F4A7C15ull;
    for (const int64_t x : {shape.count, shape.stride, shape.len}) {
      h = (h ^ static_cast<uint64_t>(x)) * 0xC2B2AE3D27D4EB4Full;
    }
    return pool_.id(shape, h ^ h >> 29, [&] { return shape; });
  }
  std::vector<GmShape> take() { return std::move(pool_.all); }

 private:
  Pool<GmShape> pool_;
};

/*! \brief GM traffic of one instruction, or a part of it. */
struct GmAccess {
  int64_t offset;  //!< in the tensor
  uint32_t shape;  //!< in the shapes of the launch
};

/*! \brief Items that the core issues again, `count` times, before it goes on with what follows them. */
struct Repeat {
  size_t item, item_end;  //!< first of the items, and the one behind the last
  size_t accesses;        //!< GM accesses of the items
  int64_t count;
  int32_t period;   //!< iterations of the loop they stand for
  uint64_t digest;  //!< of the items: the same for repeats of the same instructions
};

/*! \brief Record of one core. */
struct CoreRecord {
  std::vector<uint32_t> items;     //!< ids of TimeDesc, in order of issue
  std::vector<GmAccess> accesses;  //!< of all items in order, as often as they are issued
  std::vector<Repeat> repeats;     //!< in order, none inside of another
  std::vector<int64_t> stream;     //!< op, line, n, args... with GM addresses as (tensor, offset)
};

}  // namespace tla

#endif  // TLA_MACHINE_RECORDER_H_
