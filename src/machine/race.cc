#include "race.h"

#include <algorithm>

namespace tla {

void RaceShadow::check(uint64_t word, bool other_write, int64_t offset, const Accessor& who, Conflict& conflict) {
  const Epoch e = unpack(word);
  if (e.agent == who.epoch.agent && e.time == who.epoch.time) return;  // another operand of the same instruction
  if (conflict.found || who.clock->knows(who.core, e)) return;
  conflict = {true, e, other_write, offset};
}

void RaceShadow::check_write(uint64_t word, int64_t offset, int64_t bytes, const Accessor& who, Conflict& conflict) {
  const Epoch e = unpack(word);
  if (conflict.rewrites == nullptr || e.agent != who.epoch.agent) {
    check(word, true, offset, who, conflict);
  } else if (e.time != who.epoch.time && !who.clock->knows(who.core, e)) {
    conflict.rewrites->push_back({offset, bytes, e});
  }
}

void RaceShadow::drop_reads(Cell& cell) {
  if (cell.reads & kMark) {
    const auto index = static_cast<uint32_t>(cell.reads);
    sets_[index].clear();
    free_sets_.push_back(index);
  }
  cell.reads = 0;
}

void RaceShadow::add_read(Cell& cell, uint64_t word, const Accessor& who) {
  if (cell.reads == 0 || cell.reads == word) {
    cell.reads = word;
    return;
  }
  // A read that is known to be complete is covered by this one: whoever is ordered after this one is ordered after it.
  // The same holds for an earlier read of the same pipe, complete or not, because pipes complete as a prefix.
  auto covered = [&](uint64_t old) {
    if ((old ^ word) & kAtomicBit) return false;
    const Epoch e = unpack(old);
    return e.agent == who.epoch.agent || who.clock->knows(who.core, e);
  };
  if (!(cell.reads & kMark)) {
    if (covered(cell.reads)) {
      cell.reads = word;
      return;
    }
    uint32_t index;
    if (free_sets_.empty()) {
      index = static_cast<uint32_t>(sets_.size());
      sets_.emplace_back();
    } else {
      index = free_sets_.back();
      free_sets_.pop_back();
    }
    sets_[index] = {cell.reads, word};
    cell.reads = kMark | index;
    return;
  }
  auto& set = sets_[static_cast<uint32_t>(cell.reads)];
  set.erase(std::remove_if(set.begin(), set.end(), covered), set.end());
  set.push_back(word);
}

void RaceShadow::touch(Cell& cell, int64_t offset, int64_t bytes, Kind kind, const Accessor& who, Conflict& conflict) {
  if (cell.write != 0) check_write(cell.write, offset, bytes, who, conflict);
  const bool read = kind == kRead || kind == kLook;
  if (!read || (cell.reads & (kMark | kAtomicBit))) {
    // Reads do not conflict with reads, nor atomic updates with atomic updates.
    auto other = [&](uint64_t w) {
      const bool atomic = (w & kAtomicBit) != 0;
      if ((read && !atomic) || (kind == kAtomic && atomic)) return;
      check(w, atomic, offset, who, conflict);
    };
    if (cell.reads & kMark) {
      for (uint64_t w : sets_[static_cast<uint32_t>(cell.reads)]) other(w);
    } else if (cell.reads != 0) {
      other(cell.reads);
    }
  }
  if (kind == kLook) return;
  if (kind == kWrite) {
    drop_reads(cell);
    cell.write = pack(who.epoch, false);
  } else {
    add_read(cell, pack(who.epoch, kind == kAtomic), who);
  }
}

void RaceShadow::touch_bytes(Cell& cell, int64_t base, int64_t lo, int64_t hi, Kind kind, const Accessor& who,
                             Conflict& conflict) {
  if (!(cell.write & kMark)) {
    uint32_t index;
    if (free_split_.empty()) {
      index = static_cast<uint32_t>(split_.size());
      split_.emplace_back();
    } else {
      index = free_split_.back();
      free_split_.pop_back();
    }
    const Cell old = cell;
    for (Cell& byte : split_[index].cell) {
      byte.write = old.write;
      byte.reads = 0;
      if (old.reads & kMark) {
        const auto copy = static_cast<uint32_t>(sets_.size());
        sets_.push_back(sets_[static_cast<uint32_t>(old.reads)]);
        byte.reads = kMark | copy;
      } else {
        byte.reads = old.reads;
      }
    }
    drop_reads(cell);
    cell.write = kMark | index;
  }
  const auto index = static_cast<uint32_t>(cell.write);
  for (int64_t b = lo; b < hi; ++b) touch(split_[index].cell[b - base], b, 1, kind, who, conflict);
  if (kind == kWrite && hi - lo == kGranule) {  // all bytes agree again
    cell.write = pack(who.epoch, false);
    cell.reads = 0;
    free_split_.push_back(index);
  }
}

void RaceShadow::access(int64_t lo, int64_t hi, Kind kind, const Accessor& who, Conflict& conflict) {
  while (lo < hi) {
    const int64_t granule = lo / kGranule, base = granule * kGranule;
    const int64_t end = std::min(hi, base + kGranule);
    Cell& cell = cells_[static_cast<size_t>(granule)];
    if (end - lo == kGranule && !(cell.write & kMark)) {
      touch(cell, lo, kGranule, kind, who, conflict);
    } else {
      touch_bytes(cell, base, lo, end, kind, who, conflict);
    }
    lo = end;
  }
}

}  // namespace tla
