/* Which GM traffic L2 serves: first touch misses, capacity evicts the least recently used chunks (approximately). */
#ifndef TLA_MACHINE_L2_H_
#define TLA_MACHINE_L2_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "gm.h"
#include "recorder.h"

namespace tla {

/*! \brief Bytes one access moves, by where they come from or go to. */
struct Traffic {
  double hbm_read = 0;   //!< misses
  double hbm_write = 0;  //!< dirty lines this access pushed out
  double l2 = 0;         //!< hits of a read; all bytes of a write
};

/*!
 * \brief Presence of 512-byte lines, kept for chunks of 64 lines. A write allocates without reading (full lines) and is
 * written back when its chunk is evicted.
 */
class L2Model {
 public:
  L2Model(int64_t capacity_bytes, int32_t line_bytes, const std::vector<GmTensor>& tensors)
      : line_(line_bytes > 0 ? line_bytes : 512), capacity_lines_(capacity_bytes / line_) {
    for (const GmTensor& t : tensors) {
      chunks_.emplace_back(static_cast<size_t>((t.bytes + line_ * kLines - 1) / (line_ * kLines) + 1));
    }
  }

  Traffic touch(const GmTraffic& a) {
    Traffic out;
    const auto total = static_cast<double>(a.count * a.len);
    if (a.tensor < 0) {
      out.hbm_read = total;
      return out;
    }
    int64_t missed = 0;
    for (int64_t i = 0; i < a.count; ++i) missed += touch_piece(a, a.offset + i * a.stride, out);
    if (a.write) {
      out.l2 = total;
    } else {
      // A line that was missing costs HBM once, whole; the rest of the bytes come from L2.
      out.hbm_read = static_cast<double>(missed * line_);
      out.l2 = std::max(0.0, total - out.hbm_read);
    }
    return out;
  }

 private:
  static constexpr int64_t kLines = 64;
  struct Chunk {
    uint64_t present = 0, dirty = 0;
    uint32_t stamp = 0;
  };
  struct Resident {
    int32_t tensor;
    uint32_t chunk, stamp;
  };

  int64_t touch_piece(const GmTraffic& a, int64_t offset, Traffic& out) {
    if (a.len <= 0) return 0;
    auto& chunks = chunks_[static_cast<size_t>(a.tensor)];
    int64_t missed = 0;
    int64_t first = offset / line_;
    const int64_t last = (offset + a.len - 1) / line_;
    while (first <= last) {
      const auto index = static_cast<size_t>(first / kLines);
      const int64_t end = std::min(last, static_cast<int64_t>(index) * kLines + kLines - 1);
      const int64_t lines = end - first + 1;
      const uint64_t mask = (lines == kLines ? ~uint64_t{0} : ((uint64_t{1} << lines) - 1)) << (first % kLines);
      Chunk& c = chunks[index];
      const uint64_t fresh = mask & ~c.present;
      if (fresh != 0) {
        const int n = __builtin_popcountll(fresh);
        missed += n;
        resident_lines_ += n;
        if (c.present == 0) order_.push_back({a.tensor, static_cast<uint32_t>(index), ++now_});
        c.present |= fresh;
      }
      c.stamp = ++now_;
      if (a.write) c.dirty |= mask;
      first = end + 1;
    }
    while (resident_lines_ > capacity_lines_ && !order_.empty()) evict(out);
    return missed;
  }

  void evict(Traffic& out) {
    const Resident r = order_.front();
    order_.pop_front();
    Chunk& c = chunks_[static_cast<size_t>(r.tensor)][r.chunk];
    if (c.stamp > r.stamp && order_.size() > 1) {  // used since it was queued: second chance
      order_.push_back({r.tensor, r.chunk, c.stamp});
      return;
    }
    resident_lines_ -= __builtin_popcountll(c.present);
    out.hbm_write += static_cast<double>(__builtin_popcountll(c.dirty)) * static_cast<double>(line_);
    c = Chunk{};
  }

  int64_t line_;
  int64_t capacity_lines_;
  int64_t resident_lines_ = 0;
  uint32_t now_ = 0;
  std::vector<std::vector<Chunk>> chunks_;
  std::deque<Resident> order_;
};

}  // namespace tla

#endif  // TLA_MACHINE_L2_H_
