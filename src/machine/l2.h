/*
 * Which GM traffic L2 serves: first touch misses, capacity evicts the least recently used chunks (approximately). Ends
 * of pieces that are not on a block of `gm_edge_bytes` miss always, as measured on boards.
 */
#ifndef TLA_MACHINE_L2_H_
#define TLA_MACHINE_L2_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "chip.h"
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
  L2Model(const ChipParams& chip, const std::vector<GmTensor>& tensors)
      : line_(chip.l2_line_bytes > 0 ? chip.l2_line_bytes : 512),
        capacity_lines_(chip.l2_bytes / line_),
        edge_bytes_(chip.gm_edge_bytes) {
    int64_t total = 0;
    for (const GmTensor& t : tensors) {
      if (!t.bypass_l2) total += t.bytes;
      bypass_.push_back(t.bypass_l2);
      chunks_.emplace_back(static_cast<size_t>((t.bytes + line_ * kLines - 1) / (line_ * kLines) + 1));
    }
    contested_ = total > chip.l2_bytes && 2 * total < 3 * chip.l2_bytes;
  }

  /*!
   * \brief Whether the tensors are a little more than L2 holds: then the order of each access decides what is found in
   * it.
   */
  bool contested() const { return contested_; }

  /*! \brief Bytes `touch(a, offset)` would read from HBM. */
  double missing(const GmShape& a, int64_t offset) {
    if (a.write) return 0;
    if (passes_by(a)) return static_cast<double>(a.bytes());
    int64_t missed = 0;
    for_parts(
        a, offset, [&](int64_t edges) { missed += edges; },
        [&](size_t chunk, uint64_t mask) {
          const uint64_t fresh = mask & ~chunks_[static_cast<size_t>(a.tensor)][chunk].present;
          if (fresh != 0) missed += __builtin_popcountll(fresh);
        });
    return static_cast<double>(missed * line_);
  }

  /*! \brief Count bytes written to HBM by tensor in a vector that stays alive; null: do not. */
  void count_write_backs(std::vector<int64_t>* by_tensor) { written_back_ = by_tensor; }

  /*! \brief An access of shape `a` at `offset` of its tensor. */
  Traffic touch(const GmShape& a, int64_t offset) {
    Traffic out;
    const auto total = static_cast<double>(a.bytes());
    if (passes_by(a)) {
      (a.write ? out.hbm_write : out.hbm_read) = total;
      if (a.write && a.tensor >= 0) wrote_back(a.tensor, a.bytes());
      return out;
    }
    int64_t missed = 0;
    for_parts(
        a, offset, [&](int64_t edges) { missed += edges; },
        [&](size_t chunk, uint64_t mask) { missed += touch_chunk(a, chunk, mask); });
    while (resident_lines_ > capacity_lines_ && !order_.empty()) evict(out);
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

  bool passes_by(const GmShape& a) const { return a.tensor < 0 || bypass_[static_cast<size_t>(a.tensor)]; }

  /*!
   * \brief Calls `see(chunk, mask of its lines)` for all chunks an access reaches. Pieces that end off `edge_bytes` are
   * seen one by one, each behind `edges(lines that are read again)`.
   */
  template <typename Edges, typename See>
  void for_parts(const GmShape& a, int64_t offset, Edges edges, See see) {
    const auto whole = [&](int64_t n) { return n % edge_bytes_ == 0; };
    const bool even =
        edge_bytes_ == 0 || a.write || (whole(offset) && whole(a.len) && (a.count == 1 || whole(a.stride)));
    if (even && a.count > 1) {
      const int64_t chunk = offset / chunk_bytes();
      for (const Part& p : parts(a, offset - chunk * chunk_bytes())) see(static_cast<size_t>(chunk + p.chunk), p.mask);
      return;
    }
    for (int64_t i = 0; i < a.count; ++i) {
      if (!even) edges(edges_again(a, offset, i));
      for_chunks(offset + i * a.stride, a.len, see);
    }
  }

  /*! \brief Calls `see(chunk, mask of its lines)` for all chunks `len` bytes from `offset` on lie in. */
  template <typename See>
  void for_chunks(int64_t offset, int64_t len, See see) const {
    if (len <= 0) return;
    int64_t first = offset / line_;
    const int64_t last = (offset + len - 1) / line_;
    while (first <= last) {
      const int64_t chunk = first / kLines, end = std::min(last, chunk * kLines + kLines - 1);
      const int64_t lines = end - first + 1;
      see(static_cast<size_t>(chunk), (lines == kLines ? ~uint64_t{0} : ((uint64_t{1} << lines) - 1))
                                          << (first % kLines));
      first = end + 1;
    }
  }

  /*! \brief Lines of one chunk; chunks are counted from the one an access starts in. */
  struct Part {
    int64_t chunk;
    uint64_t mask;
  };
  struct Parts {
    int64_t count = 0, stride = 0, len = 0, phase = 0;
    std::vector<Part> parts;
  };

  int64_t chunk_bytes() const { return line_ * kLines; }

  /*! \brief What an access reaches that starts `phase` bytes behind the start of a chunk: programs ask for few of them.
   */
  const std::vector<Part>& parts(const GmShape& a, int64_t phase) {
    uint64_t h = 0;
    for (const int64_t x : {a.count, a.stride, a.len, phase})
      h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15ull;
    Parts& p = parts_[h >> 54];
    if (p.count == a.count && p.stride == a.stride && p.len == a.len && p.phase == phase) return p.parts;
    p.count = a.count;
    p.stride = a.stride;
    p.len = a.len;
    p.phase = phase;
    p.parts.clear();
    for (int64_t i = 0; i < a.count; ++i) {
      for_chunks(phase + i * a.stride, a.len, [&](size_t chunk, uint64_t mask) {
        const auto n = static_cast<int64_t>(chunk);
        if (p.parts.empty() || p.parts.back().chunk != n) p.parts.push_back({n, 0});
        p.parts.back().mask |= mask;
      });
    }
    return p.parts;
  }

  int64_t touch_chunk(const GmShape& a, size_t index, uint64_t mask) {
    Chunk& c = chunks_[static_cast<size_t>(a.tensor)][index];
    const uint64_t fresh = mask & ~c.present;
    int missed = 0;
    if (fresh != 0) {
      missed = __builtin_popcountll(fresh);
      resident_lines_ += missed;
      if (c.present == 0) order_.push_back({a.tensor, static_cast<uint32_t>(index), ++now_});
      c.present |= fresh;
    }
    c.stamp = ++now_;
    if (a.write) c.dirty |= mask;
    return missed;
  }

  /*!
   * \brief Lines at the ends of piece `i` that are read again although they are present: ends off `edge_bytes`. Pieces
   * of one access that meet in a line read it once.
   */
  int64_t edges_again(const GmShape& a, int64_t offset, int64_t i) const {
    if (a.len <= 0) return 0;
    const int64_t start = offset + i * a.stride, end = start + a.len;
    const int64_t first = start / line_, last = (end - 1) / line_;
    const bool met = i > 0 && (end - a.stride - 1) / line_ == first;
    const bool meets = i + 1 < a.count && (start + a.stride) / line_ == last;
    const bool again = start % edge_bytes_ != 0 && !met && present(a.tensor, first);
    return again + (end % edge_bytes_ != 0 && !meets && (last != first || !again) && present(a.tensor, last));
  }

  bool present(int32_t tensor, int64_t line) const {
    const Chunk& c = chunks_[static_cast<size_t>(tensor)][static_cast<size_t>(line / kLines)];
    return (c.present >> (line % kLines) & 1) != 0;
  }

  void wrote_back(int32_t tensor, int64_t bytes) {
    if (written_back_ != nullptr) (*written_back_)[static_cast<size_t>(tensor)] += bytes;
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
    const int64_t dirty = __builtin_popcountll(c.dirty) * line_;
    out.hbm_write += static_cast<double>(dirty);
    wrote_back(r.tensor, dirty);
    c = Chunk{};
  }

  int64_t line_;
  int64_t capacity_lines_;
  int64_t edge_bytes_;
  int64_t resident_lines_ = 0;
  bool contested_ = false;
  uint32_t now_ = 0;
  std::vector<int64_t>* written_back_ = nullptr;
  std::vector<bool> bypass_;  // by tensor
  std::vector<std::vector<Chunk>> chunks_;
  std::vector<Parts> parts_ = std::vector<Parts>(1024);
  std::deque<Resident> order_;
};

}  // namespace tla

#endif  // TLA_MACHINE_L2_H_
