/*
 * Race detection on one memory, after FastTrack: the last write and the reads since then, as epochs of vector clocks.
 *
 * State is kept per granule of 32 bytes and, where an access covers a granule only in part, per byte. A conflict is two
 * accesses to the same byte, one of them a write, of which neither is known to be complete when the other starts.
 */
#ifndef TLA_MACHINE_RACE_H_
#define TLA_MACHINE_RACE_H_

#include <cstdint>
#include <vector>

#include "clock.h"

namespace tla {

/*! \brief Bytes an access writes while an earlier write of them, by its own agent, may not be complete. */
struct Rewrite {
  int64_t offset, bytes;
  Epoch other;
};

/*! \brief The first conflict an access found. */
struct Conflict {
  bool found = false;
  Epoch other;  //!< the earlier access
  bool other_write = false;
  int64_t offset = 0;                        //!< first conflicting byte
  std::vector<Rewrite>* rewrites = nullptr;  //!< where bytes written again go instead: they conflict if they change
};

/*! \brief Who is accessing. */
struct Accessor {
  int core;
  Epoch epoch;
  const Clock* clock;
};

class RaceShadow {
 public:
  explicit RaceShadow(int64_t bytes) : cells_(static_cast<size_t>((bytes + kGranule - 1) / kGranule)) {}

  /*! \brief `kLook` checks a read without recording it. */
  enum Kind { kRead, kWrite, kAtomic, kLook };
  /*! \brief Check and record an access to bytes [lo, hi). Only the first conflict is written to `conflict`. */
  void access(int64_t lo, int64_t hi, Kind kind, const Accessor& who, Conflict& conflict);

 private:
  static constexpr int64_t kGranule = 32;
  // An epoch in one word: bit 62 atomic, bits 61..32 agent, bits 31..0 time (times start at 1, so 0 means none). Bit 63
  // of a cell's `write` marks a granule that is split into bytes, of `reads` a set instead of one epoch; the rest is
  // the index into `split_` or `sets_`.
  static constexpr uint64_t kMark = uint64_t{1} << 63;
  static constexpr uint64_t kAtomicBit = uint64_t{1} << 62;
  struct Cell {
    uint64_t write = 0;
    uint64_t reads = 0;  // reads and atomic updates since `write`
  };
  struct Bytes {
    Cell cell[kGranule];
  };

  void touch(Cell& cell, int64_t offset, int64_t bytes, Kind kind, const Accessor& who, Conflict& conflict);
  void touch_bytes(Cell& cell, int64_t base, int64_t lo, int64_t hi, Kind kind, const Accessor& who,
                   Conflict& conflict);
  void add_read(Cell& cell, uint64_t word, const Accessor& who);
  void drop_reads(Cell& cell);
  static uint64_t pack(Epoch e, bool atomic) { return (atomic ? kAtomicBit : 0) | uint64_t{e.agent} << 32 | e.time; }
  static Epoch unpack(uint64_t w) {
    return {static_cast<uint32_t>((w & ~kMark & ~kAtomicBit) >> 32), static_cast<uint32_t>(w)};
  }
  static void check(uint64_t word, bool other_write, int64_t offset, const Accessor& who, Conflict& conflict);
  static void check_write(uint64_t word, int64_t offset, int64_t bytes, const Accessor& who, Conflict& conflict);

  std::vector<Cell> cells_;
  std::vector<Bytes> split_;
  std::vector<uint32_t> free_split_;
  std::vector<std::vector<uint64_t>> sets_;
  std::vector<uint32_t> free_sets_;
};

}  // namespace tla

#endif  // TLA_MACHINE_RACE_H_
