/* Execution: what the pipes do with the items in their queues, and when. */
#include <string>

#include "core.h"
#include "machine.h"

namespace tla {

bool Core::execute(int slot, const Item& item, const SharedClock& fence) {
  if (fence && fence != joined_fence_[slot]) {
    clock_[slot].join(index, fence);
    joined_fence_[slot] = fence;
  }
  switch (item.kind) {
    case ItemKind::kExec:
      run(slot, item.instr);
      return true;
    case ItemKind::kSetFlag:
      set_flag(slot, item);
      return true;
    case ItemKind::kWaitFlag:
      return wait_flag(slot, item);
    case ItemKind::kBarrier:
      clock_[slot].local[slot] = time_[slot];
      return true;
    case ItemKind::kCrossSet:
      cross_set(slot, item);
      return true;
  }
  return true;
}

bool Core::execute_head(int slot) {
  PipeQueue& q = queue[slot];
  Item& item = q.front();
  const bool cross = item.kind == ItemKind::kCrossSet;
  if (!execute(slot, item, item.fence)) return false;
  q.pop();
  if (cross) --pending_cross_sets;
  if (q.empty()) waiting_ &= ~(1u << slot);
  return true;
}

template <typename Stop>
void Core::advance(int slot, Stop stop) {
  const uint32_t bit = 1u << slot;
  if (busy_ & bit) return;
  busy_ |= bit;
  while (!stop() && !queue[slot].empty() && execute_head(slot)) {
  }
  busy_ &= ~bit;
}

void Core::settle() {
  for (bool moved = true; moved && waiting_ != 0;) {
    moved = false;
    for (int slot = 1; slot < kNumSlots; ++slot) {
      if ((waiting_ >> slot & 1) == 0) continue;
      const size_t before = queue[slot].size();
      advance(slot, [] { return false; });
      moved |= queue[slot].size() != before;
    }
  }
}

bool Core::force_flag(int source, const Flag& flag) {
  if (source != kS) advance(source, [&flag] { return flag.up; });
  return flag.up;
}

bool Core::force_item(int slot, size_t position) {
  const size_t target = queue[slot].size() - position - 1;
  advance(slot, [&] { return queue[slot].size() <= target; });
  const bool done = queue[slot].size() <= target;
  if (waiting_ != 0) settle();
  return done;
}

void Core::drain(const std::vector<int>& order) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int slot : order) {
      const size_t before = queue[slot].size();
      advance(slot, [] { return false; });
      moved |= queue[slot].size() != before;
    }
  }
}

bool Core::all_empty() const {
  for (const PipeQueue& q : queue) {
    if (!q.empty()) return false;
  }
  return true;
}

bool Core::can_resume() {
  switch (blocked) {
    case BlockReason::kNone:
      return true;
    case BlockReason::kCrossFlag:
      return !counters_[static_cast<size_t>(blocked_id)].empty();
    case BlockReason::kFlag: {
      const Flag& f = flags_[static_cast<size_t>(blocked_id)];
      return f.up || force_flag(OpTable::get().events[blocked_id / num_ids_].source, f);
    }
    case BlockReason::kBarrier:
      return all_empty();
    case BlockReason::kStopped:
      return false;
  }
  return false;
}

int64_t Core::run(int slot, const Instr& instr) {
  const OpImpl& impl = kOpImpls[instr.op];
  if (clocks_) tick(slot, instr);
  const bool legal = (simulate_ && !need_accesses_) || check_accesses(instr, slot);
  if (clocks_) complete(slot, instr);
  struct Return {
    Core& core;
    ~Return() { core.give_back(); }
  } give_back{*this};
  if (!legal) return 0;
  const OpInfo& info = OpTable::get().op[instr.op];
  const bool scalar_from_gm = info.returns && instr.operand(info.first_operand).space == GM;
  if (!m_.options.values && !scalar_from_gm) return 0;
  if (impl.exec == nullptr) {
    fault(kInvalid, "is not implemented by the simulator", instr, slot);
    return 0;
  }
  const int64_t result = impl.exec(*this, instr);
  if (!rewritten_.empty()) check_rewritten(instr, slot);
  return result;
}

void Core::set_flag(int slot, const Item& item) {
  Flag& f = flag(item.event, item.id);
  const Clock now = finished_clock(slot);
  const std::string what = std::string(event_name(item.event)) + " id " + std::to_string(item.id);
  if (f.up) {
    fault(kSynccheck, "flag " + what + " is set while it is still up", item.instr, slot, f.set_site);
  } else if (f.wait_epoch.time != 0 && !now.knows(index, f.wait_epoch)) {
    fault(kSynccheck, "flag " + what + " may be set before the wait for its previous set has taken it down", item.instr,
          slot, f.wait_site);
  }
  f.up = true;
  f.set_clock = now;
  f.set_site = site(item.instr, slot);
}

bool Core::wait_flag(int slot, const Item& item) {
  Flag& f = flag(item.event, item.id);
  if (!f.up && !force_flag(OpTable::get().events[item.event].source, f)) return false;
  f.up = false;
  if (!clocks_) return true;
  clock_[slot].join(f.set_clock);
  f.wait_epoch = tick(slot, item.instr);
  f.wait_site = site(item.instr, slot);
  // The wait itself is over; instructions in front of it that may still run stay unknown.
  uint32_t& known = clock_[slot].local[slot];
  if (known + 1 == time_[slot]) known = time_[slot];
  return true;
}

void Core::cross_set(int slot, const Item& item) {
  SharedClock published;
  if (clocks_) published = finished_clock(slot).publish(index, m_.num_agents());
  m_.cross_set(*this, item.mode, item.id, published, site(item.instr, slot));
}

void Core::deliver(int id, const SharedClock& clock, Site from) {
  auto& counter = counters_[static_cast<size_t>(id)];
  counter.push_back({clock, from});
  if (static_cast<int>(counter.size()) <= chip.cross_core_flag_depth) return;
  m_.hazards.add({kSynccheck,
                  "cross-core flag " + std::to_string(id) + " of " + name() + " counts beyond " +
                      std::to_string(chip.cross_core_flag_depth),
                  from,
                  {},
                  -1,
                  0,
                  0,
                  ""});
}

}  // namespace tla
