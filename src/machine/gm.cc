#include "gm.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "instr.h"

namespace tla {
namespace {

/*! \brief Bits [lo, hi) of a word, 0 <= lo < hi <= 64. */
uint64_t bits(int64_t lo, int64_t hi) { return (~0ull >> (64 - (hi - lo))) << lo; }

/*! \brief Call `fn(word index, bits of the word)` for bits [lo, hi) until it returns false. */
template <class Fn>
void for_each_word(int64_t lo, int64_t hi, Fn&& fn) {
  while (lo < hi) {
    const int64_t word = lo / 64, end = std::min(hi, (word + 1) * 64);
    if (!fn(static_cast<size_t>(word), bits(lo - word * 64, end - word * 64))) return;
    lo = end;
  }
}

/*! \brief Call `fn(lo, hi)` for runs of unwritten bytes within a word, in ascending order. */
template <class Fn>
void for_each_gap(const GmTensor& t, Fn&& fn) {
  for_each_word(0, t.bytes, [&](size_t word, uint64_t mask) {
    uint64_t gaps = ~t.written[word] & mask;
    while (gaps != 0) {
      const int first = __builtin_ctzll(gaps);
      const uint64_t above = ~(gaps >> first);
      const int length = above == 0 ? 64 : __builtin_ctzll(above);
      fn(static_cast<int64_t>(word) * 64 + first, static_cast<int64_t>(word) * 64 + first + length);
      gaps &= ~bits(first, first + length);
    }
    return true;
  });
}

}  // namespace

void GmTensor::set_written(int64_t lo, int64_t hi, bool value) {
  for_each_word(lo, hi, [&](size_t word, uint64_t mask) {
    written[word] = value ? written[word] | mask : written[word] & ~mask;
    return true;
  });
}

bool GmTensor::all_written(int64_t lo, int64_t hi) const {
  bool all = true;
  for_each_word(lo, hi, [&](size_t word, uint64_t mask) {
    all = (written[word] & mask) == mask;
    return all;
  });
  return all;
}

void GmTensor::count_write(int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < hi; ++i) {
    uint8_t& n = writes[static_cast<size_t>(i)];
    n = static_cast<uint8_t>(n + (n != UINT8_MAX));
  }
}

void GmMap::init(std::vector<GmTensor> tensors, bool with_shadow, bool count_writes) {
  tensors_ = std::move(tensors);
  last_ = nullptr;
  std::sort(tensors_.begin(), tensors_.end(), [](auto& a, auto& b) { return a.address < b.address; });
  for (size_t i = 1; i < tensors_.size(); ++i) {
    const GmTensor &a = tensors_[i - 1], &b = tensors_[i];
    if (a.address + a.bytes > b.address && a.bytes > 0 && b.bytes > 0) {
      throw std::runtime_error("GM tensors '" + a.name + "' and '" + b.name + "' overlap");
    }
  }
  for (GmTensor& t : tensors_) {
    if (count_writes && !t.scratch) t.writes.assign(static_cast<size_t>(t.bytes), 0);
    if (with_shadow && t.fresh) t.written.resize(static_cast<size_t>((t.bytes + 63) / 64), 0);
    if (with_shadow && t.scratch) t.shadow.resize(static_cast<size_t>(t.bytes), kUndefinedByte);
  }
}

std::vector<GmTensor> GmMap::release() {
  last_ = nullptr;
  for (GmTensor& t : tensors_) t.race.reset();
  return std::move(tensors_);
}

std::vector<UnwrittenRange> GmMap::unwritten() const {
  std::vector<UnwrittenRange> found;
  for (const GmTensor& t : tensors_) {
    if (t.written.empty()) continue;
    UnwrittenRange r{t.name};
    for_each_gap(t, [&r](int64_t lo, int64_t hi) {
      if (r.bytes == 0) r.lo = lo;
      r.hi = hi;
      r.bytes += hi - lo;
    });
    if (r.bytes > 0) found.push_back(r);
  }
  return found;
}

void GmMap::poison_unwritten() {
  for (const GmTensor& t : tensors_) {
    if (t.written.empty()) continue;
    for_each_gap(t, [&t](int64_t lo, int64_t hi) {
      std::memset(reinterpret_cast<uint8_t*>(t.address) + lo, kPoison, static_cast<size_t>(hi - lo));
    });
  }
}

GmTensor* GmMap::find(int64_t address) {
  auto inside = [address](const GmTensor* t) { return address >= t->address && address < t->address + t->bytes; };
  if (last_ != nullptr && inside(last_)) return last_;
  auto* t = const_cast<GmTensor*>(below(address));
  if (t == nullptr || !inside(t)) return nullptr;
  return last_ = t;
}

const GmTensor* GmMap::below(int64_t address) const {
  auto it = std::upper_bound(tensors_.begin(), tensors_.end(), address,
                             [](int64_t a, const GmTensor& t) { return a < t.address; });
  return it == tensors_.begin() ? nullptr : &*(it - 1);
}

int64_t GmMap::normalise(int64_t word) {
  constexpr int64_t kOffsetMask = 0xFFFFFFFFFFFFll, kUnknown = 0xFF;
  const int64_t address = word & kOffsetMask;
  GmTensor* t = find(address);
  if (t == nullptr) {  // one past the end is a legal head address of an empty access
    const GmTensor* b = below(address);
    if (b != nullptr && address == b->address + b->bytes) t = const_cast<GmTensor*>(b);
  }
  const int64_t place = t ? (static_cast<int64_t>(t->index) << 40 | (address - t->address)) : kUnknown << 40;
  return (word & ~kOffsetMask) | place;
}

}  // namespace tla
