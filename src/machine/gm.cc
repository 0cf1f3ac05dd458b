#include "gm.h"

#include <algorithm>
#include <stdexcept>

#include "instr.h"

namespace tla {

void GmMap::init(std::vector<GmTensor> tensors, bool with_shadow) {
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
    if (with_shadow && t.fresh) t.unwritten.assign(static_cast<size_t>(t.bytes), 1);
    if (with_shadow && t.scratch) t.shadow.assign(static_cast<size_t>(t.bytes), kUndefinedByte);
  }
}

std::vector<UnwrittenRange> GmMap::unwritten() const {
  std::vector<UnwrittenRange> found;
  for (const GmTensor& t : tensors_) {
    UnwrittenRange r{t.name};
    for (size_t i = 0; i < t.unwritten.size(); ++i) {
      if (t.unwritten[i] == 0) continue;
      if (r.bytes++ == 0) r.lo = static_cast<int64_t>(i);
      r.hi = static_cast<int64_t>(i) + 1;
    }
    if (r.bytes > 0) found.push_back(r);
  }
  return found;
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
