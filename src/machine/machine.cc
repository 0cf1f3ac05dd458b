#include "machine.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tla {
namespace {

// The only state outside of a Machine: which core's program is running on this thread.
thread_local Core* current_core = nullptr;

}  // namespace

Core* Machine::current() { return current_core; }

Machine::Machine(ChipParams chip_params, MachineOptions opts, KernelType kernel_type, int dim,
                 std::vector<GmTensor> tensors, Poll ask)
    : chip(std::move(chip_params)),
      options(opts),
      type(kernel_type),
      block_dim(dim),
      hazards(opts.values ? opts.checks : opts.checks & ~static_cast<uint32_t>(kInitcheck), opts.max_reports),
      random(opts.seed),
      poll(std::move(ask)) {
  gm.init(std::move(tensors), hazards.on(kInitcheck), options.count_writes);
  make_cores();
}

Machine::~Machine() = default;

void Machine::make_cores() {
  const bool mix = type == KernelType::kMix;
  struct Place {
    bool aic;
    int block, sub;
  };
  std::vector<Place> places;
  for (int b = 0; b < block_dim; ++b) {
    if (type != KernelType::kAivOnly) places.push_back({true, b, 0});
    if (type == KernelType::kAivOnly) places.push_back({false, b, 0});
    if (mix) places.insert(places.end(), {{false, b, 0}, {false, b, 1}});
  }
  memory_.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& p = places[i];
    for (int space = 0; space < kNumSpaces && options.values; ++space) {
      const int64_t bytes = chip.capacity(space, p.aic);
      if (bytes == 0) continue;
      const bool shadow = hazards.on(kInitcheck);
      // Left uninitialised: the core poisons the part its program reaches (Core::prime).
      std::unique_ptr<uint8_t[]> storage(new uint8_t[static_cast<size_t>(shadow ? 2 * bytes : bytes)]);
      memory_[i][space] = {storage.get(), shadow ? storage.get() + bytes : nullptr, bytes};
      storage_.push_back(std::move(storage));
    }
    cores.push_back(std::make_unique<Core>(*this, static_cast<int>(i), p.aic, p.block, p.sub, memory_[i]));
  }
}

uint16_t Machine::id_of(const Tile& t) {
  const auto next = static_cast<uint16_t>(tile_ids_.size() + 1);
  return tile_ids_.try_emplace({t.space, t.base, t.bytes, t.versions, t.name}, next).first->second;
}

void Machine::yield(Core& core) { core.fiber->suspend(); }

void Machine::resume(Core& core) {
  do {
    paused_ = false;
    Core* outer = std::exchange(current_core, &core);
    core.fiber->resume();
    current_core = outer;
    if (paused_) poll();
  } while (paused_);
}

void Machine::pause(Core& core) {
  paused_ = true;
  yield(core);
}

void Machine::start(Core& core, const std::function<Program(const Core&)>& program) {
  core.fiber = std::make_unique<Fiber>([this, &core, &program] {
    try {
      program(core)();
      core.report_scalar();
    } catch (const std::exception& e) {
      if (error_.empty()) error_ = core.name() + ": " + e.what();
      aborted_ = true;
    } catch (...) {
      if (error_.empty()) error_ = core.name() + ": the program threw something unknown";
      aborted_ = true;
    }
  });
}

void Machine::run(const std::function<Program(const Core&)>& program) {
  std::vector<Core*> order;
  for (auto& core : cores) order.push_back(core.get());
  if (options.adversarial) std::shuffle(order.begin(), order.end(), random);
  for (Core* core : order) {
    start(*core, program);
    resume(*core);
    if (aborted_) return;
  }
  for (;;) {
    bool moved = false;
    for (Core* core : order) {
      if (core->fiber->finished() || !core->can_resume()) continue;
      resume(*core);
      moved = true;
      if (aborted_) return;
    }
    if (moved) continue;
    if (finished()) break;
    if (!land_for_waiters()) {
      report_deadlock();
      return;
    }
  }
  std::vector<int> slots = {kMTE2, kMTE1, kM, kV, kFIX, kMTE3};
  for (Core* core : order) {
    if (options.adversarial) std::shuffle(slots.begin(), slots.end(), random);
    core->drain(slots);
  }
  for (auto& core : cores) core->report_leftovers();
  report_unmatched_cross_flags();
}

bool Machine::finished() const {
  return std::none_of(cores.begin(), cores.end(), [](const auto& c) { return c->deadlocked(); });
}

bool Machine::land_for_waiters() {
  // Only transfers in front of a cross-core set that a blocked core needs may land; everything else stays late.
  struct Candidate {
    Core* core;
    int slot;
    size_t position;
  };
  std::vector<Candidate> candidates;
  for (auto& waiter : cores) {
    if (waiter->blocked != BlockReason::kCrossFlag) continue;
    for (auto& core : cores) {
      if (core->pending_cross_sets == 0) continue;
      for (int slot = 0; slot < kNumSlots; ++slot) {
        PipeQueue& q = core->queue[slot];
        for (size_t i = 0; i < q.size(); ++i) {
          const Item& item = q.at(i);
          if (item.kind != ItemKind::kCrossSet || item.id != waiter->blocked_id) continue;
          const bool same_block = core->block == waiter->block;
          const bool reaches = item.mode == 0   ? core->aic == waiter->aic
                               : item.mode == 1 ? same_block && !core->aic && !waiter->aic
                                                : same_block && core->aic != waiter->aic;
          if (!reaches) continue;
          candidates.push_back({core.get(), slot, i});
          break;
        }
      }
    }
  }
  if (options.adversarial) std::shuffle(candidates.begin(), candidates.end(), random);
  for (const Candidate& c : candidates) {
    const size_t before = c.core->queue[c.slot].size();
    c.core->force_item(c.slot, c.position);
    if (c.core->queue[c.slot].size() != before) return true;
  }
  return false;
}

Machine::Barrier& Machine::barrier(Core& core, int mode, int id) {
  // Mode 0 has one meeting point for each core type, modes 1 and 2 one for each block (and side, in mode 2).
  const uint64_t group = mode == 0 ? 0 : static_cast<uint64_t>(core.block);
  const uint64_t key = group << 16 | static_cast<uint64_t>(mode) << 12 | static_cast<uint64_t>(core.aic) << 8 |
                       static_cast<uint64_t>(id);
  for (auto& [k, b] : barriers_) {
    if (k == key) return b;
  }
  Barrier b;
  for (auto& other : cores) {
    if (mode != 0 && other->block != core.block) continue;
    if (other->aic == core.aic) b.members.push_back(other.get());
    if ((other->aic == core.aic) != (mode == 2)) b.receivers.push_back(other.get());
  }
  b.arrivals.resize(b.members.size());
  barriers_.emplace_back(key, std::move(b));
  return barriers_.back().second;
}

void Machine::cross_set(Core& core, int mode, int id, const SharedClock& clock, Site site) {
  Barrier& b = barrier(core, mode, id);
  const auto me = static_cast<size_t>(std::find(b.members.begin(), b.members.end(), &core) - b.members.begin());
  b.arrivals[me].emplace_back(clock, site);
  if (static_cast<int>(b.arrivals[me].size()) > chip.cross_core_flag_depth) {
    hazards.add({kSynccheck,
                 "cross-core flag " + std::to_string(id) + " is set by " + core.name() + " more than " +
                     std::to_string(chip.cross_core_flag_depth) + " times ahead of its partners",
                 site,
                 {},
                 -1,
                 0,
                 0,
                 ""});
  }
  if (std::any_of(b.arrivals.begin(), b.arrivals.end(), [](const auto& a) { return a.empty(); })) return;
  SharedClock joined;
  for (auto& arrivals : b.arrivals) {
    const SharedClock& c = arrivals.front().first;
    if (c) joined = joined ? Clock::merged(joined, *c) : c;
    arrivals.erase(arrivals.begin());
  }
  for (Core* receiver : b.receivers) receiver->deliver(id, joined, site);
}

void Machine::report_unmatched_cross_flags() {
  for (auto& [key, b] : barriers_) {
    for (size_t i = 0; i < b.members.size(); ++i) {
      if (b.arrivals[i].empty()) continue;
      hazards.add({kSynccheck,
                   "cross-core flag " + std::to_string(key & 0xFF) + " was set by " + b.members[i]->name() +
                       " but never by all of its partners",
                   b.arrivals[i].front().second,
                   {},
                   -1,
                   0,
                   0,
                   ""});
    }
  }
}

void Machine::report_deadlock() {
  Hazard h;
  h.check = kDeadlock;
  int shown = 0, more = 0;
  for (auto& core : cores) {
    if (!core->deadlocked()) continue;
    if (shown < 6) {
      h.message += (shown++ != 0 ? "; " : "") + core->describe_block();
      if (h.first.op < 0) h.first = core->block_site();
    } else {
      ++more;
    }
  }
  if (more > 0) h.message += "; and " + std::to_string(more) + " more cores";
  h.message += ": nothing left can set what they wait for";
  hazards.add(std::move(h));
}

std::string Machine::range_text(int space, int64_t lo, int64_t hi, const GmTensor* tensor) const {
  static const char* const kNames[kNumSpaces] = {"GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB"};
  const std::string name = tensor != nullptr                  ? "tensor '" + tensor->name + "'"
                           : space >= 0 && space < kNumSpaces ? kNames[space]
                                                              : "unknown memory";
  return name + " bytes [" + std::to_string(lo) + ", " + std::to_string(hi) + ")";
}

void Machine::report_race(const Access& a, const Instr& instr, const Accessor& who, const Conflict& c,
                          const GmTensor* tensor) {
  const auto other_core = static_cast<size_t>(c.other.agent / kSlotsPerCore);
  const int other_slot = static_cast<int>(c.other.agent % kSlotsPerCore);
  const auto core = static_cast<size_t>(who.core);
  Site later = cores[core]->site(instr, static_cast<int>(who.epoch.agent % kSlotsPerCore));
  Site earlier = cores[other_core]->site_at(other_slot, c.other.time);
  bool later_writes = a.write, earlier_writes = c.other_write;
  if (other_core == core && earlier.order > later.order) {
    // Late transfers execute out of program order; people read programs, so report in the order of the program.
    std::swap(later, earlier);
    std::swap(later_writes, earlier_writes);
  }
  Hazard h;
  h.check = kRacecheck;
  h.first = later;
  h.second = earlier;
  h.space = a.space;
  h.lo = c.offset;
  h.hi = c.offset + 1;
  if (tensor != nullptr) h.tensor = tensor->name;
  const char* kind = !later_writes ? "read after write" : earlier_writes ? "write after write" : "write after read";
  h.message = std::string(kind) + " of " + range_text(a.space, h.lo, h.hi, tensor) + " is not ordered: ";
  if (other_core != core) {
    h.message += "no cross-core flag orders " + cores[other_core]->name() + " and " + cores[core]->name();
  } else if (earlier.slot == later.slot) {
    h.message +=
        "instructions of pipe " + std::string(slot_name(later.slot)) + " overlap, and no barrier is between them";
  } else {
    h.message +=
        "no flag orders pipe " + std::string(slot_name(earlier.slot)) + " before pipe " + slot_name(later.slot);
  }
  hazards.add(std::move(h), (later_writes ? 2 : 0) + (earlier_writes ? 1 : 0));
}

}  // namespace tla
