/*!
 * \file atomic.cc
 * \brief Atomic add, max and min on GM.
 */
#include "atomic.h"

#include "access.h"
#include "dispatch.h"
#include "lanes.h"
#include "ops.h"

namespace tla {
namespace isa {
namespace {

using AtomicTypes = Types<float, Half, BFloat16, int32_t, int16_t, int8_t>;
using Update = void (*)(uint8_t* d, const uint8_t* s, int64_t bytes);

template <class T, class Op>
void update(uint8_t* d, const uint8_t* s, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, d + i, sizeof(T));
    std::memcpy(&value, s + i, sizeof(T));
    old = store<T>(Op::apply(load(old), load(value)));
    std::memcpy(d + i, &old, sizeof(T));
  }
}

template <class T>
Update update_of(AtomicOp op) {
  switch (op) {
    case kAtomicAdd:
      return update<T, Add>;
    case kAtomicMax:
      return update<T, Max>;
    case kAtomicMin:
      return update<T, Min>;
    default:
      return nullptr;
  }
}

}  // namespace

GmWriter::GmWriter(ExecContext& ctx, const Instr& instr, const Operand& d)
    : ctx_(ctx), instr_(instr), d_(d), gm_shadow_(ctx.shadow(d)) {
  if (instr.atomic_op == kAtomicNone) return;
  invalid_ = instr.atomic_dtype != d.dtype;
  if (!invalid_) {
    invalid_ = !with_type(AtomicTypes{}, d.dtype, [&](auto t) { update_ = update_of<decltype(t)>(instr.atomic_op); });
  }
  if (invalid_) ctx.report_invalid(instr, "the atomic mode is set for another dtype than the one written");
}

void GmWriter::write(int64_t offset, const uint8_t* data, uint8_t* shadow, int64_t bytes, uint8_t space,
                     int64_t source) {
  if (invalid_) return;
  uint8_t* to = ctx_.data(d_) + offset;
  if (update_ != nullptr) {
    update_(to, data, bytes);
  } else {
    std::memcpy(to, data, static_cast<size_t>(bytes));
  }
  ctx_.mark_written(d_.offset + offset, bytes, update_ != nullptr);
  if (shadow == nullptr) {
    if (gm_shadow_ != nullptr && update_ == nullptr) std::memset(gm_shadow_ + offset, 0, static_cast<size_t>(bytes));
    return;
  }
  if (gm_shadow_ != nullptr) {
    for (int64_t i = 0; i < bytes; ++i) {
      gm_shadow_[offset + i] = static_cast<uint8_t>(shadow[i] | (update_ != nullptr ? gm_shadow_[offset + i] : 0));
    }
    return;
  }
  if (!any_undefined(shadow, bytes)) return;
  if (update_ == nullptr) keep_unwritten(d_.offset + offset, shadow, bytes);
  if (!any_undefined(shadow, bytes)) return;
  int64_t first = 0, last = bytes;
  while (shadow[first] == 0) ++first;
  while (shadow[last - 1] == 0) --last;
  ctx_.report_undefined(instr_, space, source + first, last - first, "a tensor in GM");
  std::memset(shadow, 0, static_cast<size_t>(bytes));
}

void GmWriter::keep_unwritten(int64_t address, uint8_t* shadow, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) {
    if (shadow[i] != kUnwrittenByte) continue;
    if (!ctx_.mark_unwritten(address + i, 1)) return;
    shadow[i] = 0;
  }
}

void push_gm_write(AccessList& out, const Instr& instr, const Operand& d, int64_t len, int64_t count, int64_t stride) {
  const size_t before = out.size();
  push_access(out, d, true, 1, 0, len, count, stride);
  if (out.size() > before) out.back().atomic = instr.atomic_op != kAtomicNone;
}

}  // namespace isa
}  // namespace tla
