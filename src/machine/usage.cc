#include "usage.h"

#include <algorithm>
#include <utility>

namespace tla {

void Coverage::add(int64_t lo, int64_t len, int64_t size) {
  const int64_t hi = std::min(lo + len, size);
  lo = std::max<int64_t>(lo, 0);
  if (hi <= lo) return;
  if (words_.empty()) words_.resize(static_cast<size_t>((size + 63) / 64));
  const auto first = static_cast<size_t>(lo / 64), last = static_cast<size_t>((hi - 1) / 64);
  const uint64_t head = ~uint64_t{0} << (lo % 64), tail = ~uint64_t{0} >> (63 - (hi - 1) % 64);
  if (first == last) {
    words_[first] |= head & tail;
    return;
  }
  words_[first] |= head;
  std::fill(words_.begin() + static_cast<int64_t>(first) + 1, words_.begin() + static_cast<int64_t>(last),
            ~uint64_t{0});
  words_[last] |= tail;
}

int64_t Coverage::bytes() const {
  int64_t n = 0;
  for (const uint64_t w : words_) n += __builtin_popcountll(w);
  return n;
}

Usage::Usage(std::vector<int64_t> sizes)
    : tensors(sizes.size()), written_back(sizes.size()), ops(kNumOps), sizes_(std::move(sizes)) {}

void Usage::moves(const TimeDesc& d, const GmShape& a, int64_t offset, const Traffic& t) {
  ops[static_cast<size_t>(d.op)].gm_bytes += a.bytes();
  if (a.tensor < 0) return;
  const auto i = static_cast<size_t>(a.tensor);
  TensorUsage& u = tensors[i];
  (a.write ? u.written : u.read) += a.bytes();
  u.hbm_read += t.hbm_read;
  Coverage& c = a.write ? u.writes : u.reads;
  for (int64_t k = 0; k < a.count; ++k) c.add(offset + k * a.stride, a.len, sizes_[i]);
}

}  // namespace tla
