/* Checks of one core: ranges, clocks and races of accesses, and what is left at the end. */
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core.h"
#include "machine.h"

namespace tla {
namespace {

struct Range {
  int64_t lo, hi;
};

Range extent(const Access& a) {
  const int64_t inner = (a.count - 1) * a.stride, outer = (a.outer_count - 1) * a.outer_stride;
  return {a.base + std::min<int64_t>(inner, 0) + std::min<int64_t>(outer, 0),
          a.base + std::max<int64_t>(inner, 0) + std::max<int64_t>(outer, 0) + a.len};
}

/*! \brief Pieces that touch become one. */
Access merged(Access a) {
  if (a.count > 1 && a.stride == a.len) {
    a.len *= a.count;
    a.count = 1;
  }
  if (a.count == 1 && a.outer_count > 1) {
    a.count = a.outer_count;
    a.stride = a.outer_stride;
    a.outer_count = 1;
    if (a.stride == a.len) {
      a.len *= a.count;
      a.count = 1;
    }
  }
  return a;
}

}  // namespace

void Core::fault(Check check, std::string message, const Instr& instr, int slot, Site other, int subtype) {
  Hazard h;
  h.check = check;
  h.message = std::move(message);
  h.first = site(instr, slot);
  h.second = other;
  m_.hazards.add(std::move(h), subtype);
}

Epoch Core::tick(int slot, const Instr& instr) {
  sites_[slot].push_back(site(instr, slot));
  return {agent_of(index, slot), ++time_[slot]};
}

void Core::complete(int slot, const Instr& instr) {
  const OpImpl& impl = kOpImpls[instr.op];
  const bool ordered = OpTable::get().op[instr.op].kind == OpKind::kExec && impl.in_order != nullptr
                           ? impl.in_order(instr, chip)
                           : chip.ordered_completion[pipe_of_slot(slot)];
  if (ordered) clock_[slot].local[slot] = time_[slot];
}

Clock Core::finished_clock(int slot) const {
  Clock c = clock_[slot];
  c.local[slot] = time_[slot];
  return c;
}

void Core::join_all_pipes() {
  Clock all;
  for (int slot = 0; slot < kNumSlots; ++slot) all.join(finished_clock(slot));
  for (Clock& c : clock_) c = all;
}

Site Core::site_at(int slot, uint32_t time) const {
  const auto& sites = sites_[slot];
  return time >= 1 && time <= sites.size() ? sites[time - 1] : Site{};
}

void Core::find_accesses(const OpImpl& impl, const Instr& instr) {
  accesses_.clear();
  impl.accesses(m_.options.values ? this : nullptr, instr, chip, accesses_);
}

bool Core::prime_accesses() {
  bool primed = false;
  for (const Access& a : accesses_) {
    if (a.space == GM || a.space >= kNumSpaces || a.bytes() == 0) continue;
    Core* holder = holder_of(a.holder);
    if (holder == nullptr) continue;
    const int64_t end = std::min(extent(a).hi, holder->mem[a.space].size);
    if (end <= holder->primed_[a.space]) continue;
    holder->prime(a.space, end);
    primed = true;
  }
  return primed;
}

bool Core::check_accesses(const Instr& instr, int slot) {
  const OpImpl& impl = kOpImpls[instr.op];
  if (impl.accesses == nullptr) return true;
  // Accesses may depend on memory contents (gather), which exist only once the memory they lie in is primed.
  do {
    find_accesses(impl, instr);
  } while (m_.options.values && prime_accesses());
  bool legal = true;
  for (const Access& a : accesses_) legal &= a.bytes() == 0 || check_memory(a, instr, slot);
  if (legal && track_undefined) {
    // Writes first: what an instruction reads of a tile it writes is that tile's already.
    for (const Access& a : accesses_) {
      if (a.write) take_over(a);
    }
    for (const Access& a : accesses_) {
      if (!a.write) take_over(a);
    }
  }
  if (!legal || !m_.hazards.on(kRacecheck)) return legal;
  const Accessor who{index, {agent_of(index, slot), time_[slot]}, &clock_[slot]};
  // Reads first: an instruction that updates in place reads what was there before its own write. Such a read is not
  // recorded before the write: it would take the place of earlier reads of the pipe, which the write must not overtake.
  const auto in_place = [this](const Access& r) {
    const Range x = extent(r);
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& w) {
      const Range y = extent(w);
      return w.write && w.bytes() != 0 && w.space == r.space && x.lo < y.hi && y.lo < x.hi;
    });
  };
  bool again = false;
  for (const Access& a : accesses_) {
    if (a.write || a.bytes() == 0) continue;
    const bool look = in_place(a);
    check_races(a, instr, who, look);
    again |= look;
  }
  for (const Access& a : accesses_) {
    if (a.write && a.bytes() != 0) check_races(a, instr, who);
  }
  if (!again) return true;
  for (const Access& a : accesses_) {
    if (!a.write && a.bytes() != 0 && in_place(a)) check_races(a, instr, who);
  }
  return true;
}

bool Core::check_memory(const Access& a, const Instr& instr, int slot) {
  const Range r = extent(a);
  if (a.space == GM) return check_global(a, r.lo, r.hi, instr, slot);
  // An access outside would corrupt the simulator itself, so with values it is never let through in silence.
  const Check check = m_.hazards.on(kMemcheck) ? kMemcheck : kInvalid;
  const Core* holder = holder_of(a.holder);
  const int64_t capacity = a.space < kNumSpaces && holder != nullptr ? chip.capacity(a.space, holder->aic) : 0;
  std::string why;
  if (capacity == 0) {
    why = a.holder == kOwnMemory ? ", a memory this core does not have" : " of another core, which there is not";
  } else if (r.lo < 0 || r.hi > capacity) {
    why = " outside of its " + std::to_string(capacity) + " bytes";
  } else if (check == kMemcheck && a.align > 1 && a.base % a.align != 0) {
    why = ", which does not start at a multiple of " + std::to_string(a.align) + " bytes";
  } else {
    why = outside_of_tile(a, r.lo, r.hi, slot);
    if (why.empty()) return true;
  }
  Hazard h;
  h.check = check;
  h.message = (a.write ? "writes " : "reads ") + m_.range_text(a.space, r.lo, r.hi, nullptr) + why;
  h.first = site(instr, slot);
  h.space = a.space;
  h.lo = r.lo;
  h.hi = r.hi;
  m_.hazards.add(std::move(h), a.write);
  return false;
}

Core* Core::holder_of(int8_t holder) {
  if (holder == kOwnMemory) return this;
  for (auto& core : m_.cores) {
    if (core->block == block && core->aic == (holder == kCubeMemory) && (core->aic || core->sub_block == holder)) {
      return core.get();
    }
  }
  return nullptr;
}

std::string Core::outside_of_tile(const Access& a, int64_t lo, int64_t hi, int slot) const {
  if (a.tile == 0) return "";
  // An index of billions of elements changes the number; the offset then lies in another tile, if anywhere.
  static const Tile kNone;
  const Tile& t = a.tile <= tiles_.size() ? tiles_[a.tile - 1] : kNone;
  const int64_t version = std::clamp<int64_t>((lo - t.base) / std::max<int64_t>(t.bytes, 1), 0, t.versions - 1);
  const int64_t first = t.base + version * t.bytes;
  // Instructions work on whole blocks and repeats, for which a tile has room behind its last element. Single elements
  // are the user's.
  if (lo >= first && hi <= first + (slot == kS ? t.elements : t.bytes)) return "";
  return " outside of " + (t.name.empty() ? std::string("its tile") : "tile '" + t.name + "'") + " at " +
         m_.range_text(a.space, first, first + t.elements, nullptr);
}

int32_t Core::declare_tile(int32_t space, int64_t base, int64_t bytes, int64_t versions, int64_t elements,
                           const char* name) {
  if (space <= GM || space >= kNumSpaces || bytes <= 0 || versions <= 0) return 0;
  const int64_t end = base + bytes * versions;
  bool shared = false;
  for (size_t i = 0; i < tiles_.size(); ++i) {
    const Tile& t = tiles_[i];
    if (t.space != space) continue;
    const bool same = t.base == base && t.bytes == bytes && t.versions == versions;
    if (same && name == nullptr) return static_cast<int32_t>(i + 1);  // a tensor object that is made again and again
    shared |= base < t.base + t.bytes * t.versions && t.base < end;
  }
  constexpr size_t kMost = 0xFFFF;
  if (tiles_.size() >= kMost) return 0;
  Tile t;
  t.space = static_cast<uint8_t>(space);
  t.base = base;
  t.bytes = bytes;
  t.versions = versions;
  t.elements = elements;
  if (name != nullptr) t.name = name;
  t.id = m_.id_of(t);
  tiles_.push_back(std::move(t));
  if (shared && track_undefined && chip.capacity(space, aic) != 0)
    owner_[space].resize(static_cast<size_t>(mem[space].size / kOwnedBytes + 1));
  return static_cast<int32_t>(tiles_.size());
}

void Core::take_over(const Access& a) {
  // What another tile left in memory that tiles share is not defined for this one: live ranges that overlap show as
  // undefined values.
  if (a.tile == 0 || a.space == GM || a.bytes() == 0 || a.tile > tiles_.size()) return;
  Core* holder = holder_of(a.holder);
  std::vector<uint16_t>& owner = holder->owner_[a.space];
  if (holder != this && owner.empty()) owner.resize(static_cast<size_t>(holder->mem[a.space].size / kOwnedBytes + 1));
  if (!owner.empty()) holder->take_over(a, tiles_[a.tile - 1].id);
}

void Core::take_over(const Access& a, uint16_t id) {
  std::vector<uint16_t>& owner = owner_[a.space];
  Memory& memory = mem[a.space];
  for (int64_t j = 0; j < a.outer_count; ++j) {
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t lo = a.base + j * a.outer_stride + i * a.stride;
      for (int64_t block = lo / kOwnedBytes; block * kOwnedBytes < lo + a.len; ++block) {
        uint16_t& tile = owner[static_cast<size_t>(block)];
        if (tile == id) continue;
        uint8_t* shadow = memory.shadow + block * kOwnedBytes;
        if (!a.write) {
          // The other tile may still be read by a transfer that lands later.
          Borrowed b{a.space, tile, block, {}};
          std::memcpy(b.shadow, shadow, kOwnedBytes);
          borrowed_.push_back(b);
        }
        if (tile != 0) std::memset(shadow, kUndefinedByte, kOwnedBytes);
        tile = id;
      }
    }
  }
}

void Core::give_back() {
  for (const Borrowed& b : borrowed_) {
    owner_[b.space][static_cast<size_t>(b.block)] = b.tile;
    std::memcpy(mem[b.space].shadow + b.block * kOwnedBytes, b.shadow, kOwnedBytes);
  }
  borrowed_.clear();
}

void Core::prime(int space, int64_t end) {
  constexpr int64_t kStep = 16384;
  Memory& memory = mem[space];
  const int64_t from = primed_[space], to = std::min(memory.size, (end + kStep - 1) / kStep * kStep);
  std::fill(memory.data + from, memory.data + to, kPoison);
  if (memory.shadow != nullptr) std::fill(memory.shadow + from, memory.shadow + to, kUndefinedByte);
  primed_[space] = to;
}

bool Core::check_global(const Access& a, int64_t lo, int64_t hi, const Instr& instr, int slot) {
  GmTensor* t = m_.gm.find(lo);
  if (t != nullptr && hi <= t->address + t->bytes && (t->writable || !a.write)) return true;
  const GmTensor* near = t != nullptr ? t : m_.gm.below(lo);
  Hazard h;
  h.check = m_.hazards.on(kMemcheck) ? kMemcheck : kInvalid;
  h.first = site(instr, slot);
  h.space = GM;
  h.message = a.write ? "writes " : "reads ";
  if (near != nullptr) {
    h.tensor = near->name;
    h.lo = lo - near->address;
    h.hi = hi - near->address;
    h.message += m_.range_text(GM, h.lo, h.hi, near);
    const int64_t over = hi - near->address - near->bytes;
    const std::string size = " bytes beyond its end (it has " + std::to_string(near->bytes) + " bytes)";
    h.message += over > 0 ? ", " + std::to_string(over) + size : ", which is read-only";
  } else {
    h.message += "GM at an address below every tensor";
  }
  m_.hazards.add(std::move(h), a.write);
  return false;
}

void Core::check_races(const Access& access, const Instr& instr, const Accessor& who, bool look) {
  const Access a = merged(access);
  GmTensor* tensor = nullptr;
  RaceShadow* shadow;
  int64_t base = a.base;
  if (a.space == GM) {
    tensor = m_.gm.find(extent(a).lo);
    if (!tensor->writable) return;  // nobody writes, so nobody races
    if (!tensor->race) tensor->race = std::make_unique<RaceShadow>(tensor->bytes);
    shadow = tensor->race.get();
    base -= tensor->address;
  } else {
    Core* holder = holder_of(a.holder);
    auto& owned = holder->race_[a.space];
    if (!owned) owned = std::make_unique<RaceShadow>(chip.capacity(a.space, holder->aic));
    shadow = owned.get();
  }
  const auto kind = look       ? RaceShadow::kLook
                    : a.atomic ? RaceShadow::kAtomic
                    : a.write  ? RaceShadow::kWrite
                               : RaceShadow::kRead;
  Conflict conflict;
  std::vector<Rewrite> rewrites;
  if (tensor != nullptr && a.write && !a.atomic && m_.options.values) conflict.rewrites = &rewrites;
  for (int64_t j = 0; j < a.outer_count; ++j) {
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t lo = base + j * a.outer_stride + i * a.stride;
      shadow->access(lo, lo + a.len, kind, who, conflict);
    }
  }
  if (conflict.found) m_.report_race(a, instr, who, conflict, tensor);
  for (const Rewrite& r : rewrites) {
    const auto* at = reinterpret_cast<const uint8_t*>(tensor->address + r.offset);
    rewritten_.push_back({tensor, a, r, {at, at + r.bytes}});
  }
}

void Core::check_rewritten(const Instr& instr, int slot) {
  const Accessor who{index, {agent_of(index, slot), time_[slot]}, &clock_[slot]};
  for (const Rewritten& r : rewritten_) {
    // Iterations of one statement may store the same number: whichever comes last, that is what is there.
    const auto* at = reinterpret_cast<const uint8_t*>(r.tensor->address + r.what.offset);
    const bool iteration = site_at(slot, r.what.other.time).line == instr.line;
    if (iteration && std::equal(r.before.begin(), r.before.end(), at)) continue;
    m_.report_race(r.access, instr, who, {true, r.what.other, true, r.what.offset, nullptr}, r.tensor);
  }
  rewritten_.clear();
}

uint8_t* Core::gm_shadow(int64_t address) {
  GmTensor* t = m_.gm.find(address);
  return t == nullptr || t->shadow.empty() ? nullptr : t->shadow.data() + (address - t->address);
}

void Core::mark_written(int64_t address, int64_t bytes, bool update) {
  if (!track_undefined && !m_.options.count_writes) return;
  GmTensor* t = m_.gm.find(address);
  if (t == nullptr) return;
  const int64_t lo = address - t->address;
  if (!t->writes.empty()) t->count_write(lo, lo + bytes);
  if (!update && !t->written.empty()) t->set_written(lo, lo + bytes, true);
}

bool Core::mark_unwritten(int64_t address, int64_t bytes) {
  GmTensor* t = m_.gm.find(address);
  if (t == nullptr || t->written.empty()) return false;
  t->set_written(address - t->address, address - t->address + bytes, false);
  return true;
}

bool Core::unwritten_shadow(int64_t address, int64_t bytes, uint8_t* shadow) {
  if (!track_undefined) return false;
  const GmTensor* t = m_.gm.find(address);
  if (t == nullptr || t->written.empty()) return false;
  const int64_t lo = address - t->address;
  if (t->all_written(lo, lo + bytes)) return false;
  for (int64_t i = 0; i < bytes; ++i) shadow[i] = t->is_written(lo + i) ? 0 : kUnwrittenByte;
  return true;
}

void Core::report_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len, const char* where) {
  m_.hazards.add(undefined(instr, space, offset, len, where));
}

Hazard Core::undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len, const char* where) const {
  Hazard h;
  h.check = kInitcheck;
  h.first = site(instr, OpTable::get().op[instr.op].slot);
  h.space = space;
  const GmTensor* t = space == GM ? m_.gm.find(offset) : nullptr;
  h.lo = offset - (t ? t->address : 0);
  h.hi = h.lo + len;
  if (t != nullptr) h.tensor = t->name;
  h.message = "undefined bytes of " + m_.range_text(space, h.lo, h.hi, t) + " reach " + where;
  if (divided_by_zero_ >= 0) {
    h.message += "; an integer was divided by zero on the scalar unit in line " + std::to_string(divided_by_zero_);
  }
  return h;
}

void Core::report_invalid(const Instr& instr, const char* why) {
  const int slot = instr.op >= 0 ? int{OpTable::get().op[instr.op].slot} : int{kS};
  fault(kInvalid, why, instr, slot);
}

void Core::print(const std::string& text) {
  const size_t kept = std::min(text.size(), kOutputBytes - output.size());
  output.append(text, 0, kept);
  lost_output += static_cast<int64_t>(text.size() - kept);
}

void Core::trap(const Instr& instr) {
  // The last line printed says why.
  const size_t end = output.empty() || output.back() != '\n' ? output.size() : output.size() - 1;
  const size_t start = end == 0 ? std::string::npos : output.rfind('\n', end - 1);
  const size_t from = start == std::string::npos ? 0 : start + 1;
  fault(kTrap, from < end ? output.substr(from, end - from) : "the program stopped itself", instr, kS);
  m_.abort();
  blocked = BlockReason::kStopped;
  for (;;) m_.yield(*this);
}

void Core::report_leftovers() {
  for (int slot = 0; slot < kNumSlots; ++slot) {
    if (queue[slot].empty()) continue;
    Item& head = queue[slot].front();
    const std::string flag_text = std::string(event_name(head.event)) + " id " + std::to_string(head.id);
    fault(kSynccheck,
          std::string("pipe ") + slot_name(slot) + " still waits for flag " + flag_text +
              " at the end of the kernel: nothing sets it",
          head.instr, slot);
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    if (!flags_[i].up) continue;
    Hazard h;
    h.check = kSynccheck;
    h.first = flags_[i].set_site;
    h.message = std::string("flag ") + event_name(static_cast<int>(i) / num_ids_) + " id " +
                std::to_string(static_cast<int>(i) % num_ids_) + " is still up at the end of the kernel";
    m_.hazards.add(std::move(h));
  }
  for (size_t id = 0; id < counters_.size(); ++id) {
    if (counters_[id].empty()) continue;
    Hazard h;
    h.check = kSynccheck;
    h.first = counters_[id].front().site;
    h.message = "cross-core flag " + std::to_string(id) + " of " + name() + " still counts " +
                std::to_string(counters_[id].size()) + " at the end of the kernel";
    m_.hazards.add(std::move(h));
  }
}

std::string Core::describe_block() const {
  std::string text = name() + " waits for ";
  switch (blocked) {
    case BlockReason::kCrossFlag:
      text += "cross-core flag " + std::to_string(blocked_id);
      break;
    case BlockReason::kFlag:
      text += std::string("flag ") + event_name(blocked_id / num_ids_) + " id " + std::to_string(blocked_id % num_ids_);
      break;
    case BlockReason::kBarrier: {
      text += "all pipes";
      for (int slot = 0; slot < kNumSlots; ++slot) {
        if (queue[slot].empty()) continue;
        const Item& head = const_cast<PipeQueue&>(queue[slot]).front();
        text += std::string(", ") + slot_name(slot) + " waits for flag " + event_name(head.event) + " id " +
                std::to_string(head.id);
      }
      break;
    }
    default:
      text += "nothing";
      break;
  }
  if (blocking_.line > 0) text += " (line " + std::to_string(blocking_.line) + ")";
  return text;
}

}  // namespace tla
