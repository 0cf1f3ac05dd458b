/* Issue: what the scalar pipe does with each instruction of the program. */
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core.h"
#include "machine.h"

namespace tla {

Core::Core(Machine& machine, int idx, bool is_aic, int blk, int sub, CoreMemory& memory)
    : ExecContext(memory, machine.chip, machine.hazards.on(kInitcheck)),
      index(idx),
      aic(is_aic),
      block(blk),
      sub_block(sub),
      m_(machine),
      mix_(machine.type == KernelType::kMix),
      slots_(slots_of_core(is_aic)),
      lazy_(machine.options.adversarial ? kTransferSlots : 0),
      num_ids_(machine.chip.num_event_ids),
      simulate_(machine.options.values || machine.options.checks != 0),
      repeats_(machine.options.time && !simulate_ && !machine.options.record_stream && !machine.options.every_step),
      clocks_(machine.hazards.on(kRacecheck) || machine.hazards.on(kSynccheck)),
      need_accesses_(machine.options.values || machine.hazards.on(kMemcheck) || machine.hazards.on(kRacecheck)),
      flags_(static_cast<size_t>(kNumEvents * machine.chip.num_event_ids)),
      counters_(static_cast<size_t>(machine.chip.num_cross_core_flags)) {}

Core::~Core() = default;

int64_t Core::issue(int32_t op, int32_t line, int32_t n, const int64_t* args) {
  Instr instr;
  instr.op = op;
  instr.line = line;
  instr.nargs = n;
  instr.atomic_op = atomic_op_;
  instr.atomic_dtype = atomic_dtype_;
  instr.order = ++issued_;
  instr.args = args;
  m_.breathe(*this);
  if (!valid(instr)) return 0;
  const OpInfo& info = OpTable::get().op[op];
  if (undefined_scalar_ && op != OP_set_value && !info.returns) report_scalar();
  if (m_.options.max_instructions != 0 && issued_ > m_.options.max_instructions) stop();
  if (m_.options.record_stream) record_stream(instr, info);
  if (m_.options.time) record_time(instr, info);

  switch (info.kind) {
    case OpKind::kBlockIdx:
      return block_idx();
    case OpKind::kSubBlockIdx:
      return sub_block;
    case OpKind::kBlockNum:
      return m_.block_dim;
    case OpKind::kSetAtomic:
      atomic_op_ = atomic_op_of(args[0]);
      atomic_dtype_ = atomic_op_ == kAtomicNone ? uint8_t{0} : atomic_dtype_of(args[1]);
      return 0;
    default:
      break;
  }
  if (!simulate_) return time_only(instr, info);

  switch (info.kind) {
    case OpKind::kSetFlag:
      issue_flag(instr, ItemKind::kSetFlag);
      return 0;
    case OpKind::kWaitFlag:
      issue_flag(instr, ItemKind::kWaitFlag);
      return 0;
    case OpKind::kBarrier:
      issue_barrier(instr);
      return 0;
    case OpKind::kCrossSet:
      issue_cross_set(instr);
      return 0;
    case OpKind::kCrossWait:
      cross_wait(instr);
      return 0;
    default:
      break;
  }
  if (info.slot == kS) {
    const int64_t value = run(kS, instr);
    if (undefined_scalar_ && op == OP_set_value) undefine_element(instr);
    return value;
  }
  Item item;
  item.instr = instr;
  enqueue(info.slot, item);
  return 0;
}

void Core::breathe() { m_.breathe(*this); }

void Core::undefine_element(const Instr& instr) {
  const Operand d = instr.operand(0);
  uint8_t* element = shadow(d);
  if (d.space == GM && element == nullptr) return report_scalar();
  undefined_scalar_.reset();
  if (element != nullptr) std::memset(element, kUndefinedByte, static_cast<size_t>(std::max(1, itemsize(d.dtype))));
}

void Core::report_scalar() {
  if (undefined_scalar_) m_.hazards.add(std::move(*undefined_scalar_));
  undefined_scalar_.reset();
}

void Core::divides_by_zero(int32_t line) {
  divided_by_zero_ = line;
  if (undefined_scalar_) return;
  Instr nothing;
  nothing.op = -1;
  nothing.line = line;
  undefined_scalar_ = std::make_unique<Hazard>();
  undefined_scalar_->check = kInvalid;
  undefined_scalar_->message = "an integer is divided by zero on the scalar unit";
  undefined_scalar_->first = site(nothing, kS);
}

void Core::hold_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len) {
  if (undefined_scalar_) return;
  undefined_scalar_ = std::make_unique<Hazard>(undefined(instr, space, offset, len, "scalar value"));
}

bool Core::valid(const Instr& instr) {
  if (instr.op < 0 || instr.op >= kNumOps) {
    Instr nothing = instr;
    nothing.op = -1;
    fault(kInvalid, "opcode " + std::to_string(instr.op) + " is not in the instruction table", nothing, kS);
    return false;
  }
  const OpInfo& info = OpTable::get().op[instr.op];
  if (instr.nargs != info.num_args) {
    fault(kInvalid,
          "has " + std::to_string(instr.nargs) + " arguments, its record has " + std::to_string(info.num_args), instr,
          info.slot);
    return false;
  }
  if ((slots_ >> info.slot & 1) == 0) {
    fault(kInvalid, std::string("needs pipe ") + slot_name(info.slot) + ", which this core does not have", instr, kS);
    return false;
  }
  return true;
}

void Core::stop() {
  Instr nothing;
  fault(kInvalid, "stopped after " + std::to_string(m_.options.max_instructions) + " instructions", nothing, kS);
  blocked = BlockReason::kStopped;
  for (;;) m_.yield(*this);
}

int64_t Core::time_only(const Instr& instr, const OpInfo& info) {
  // Control flow may depend on GM, which is real; on-chip memories have no contents without values.
  if (!info.returns || instr.operand(info.first_operand).space != GM) return 0;
  return run(kS, instr);
}

void Core::record_stream(const Instr& instr, const OpInfo& info) {
  auto& out = record.stream;
  out.insert(out.end(), {instr.op, instr.line, instr.nargs});
  for (int i = 0; i < instr.nargs; ++i) {
    const bool operand = i >= info.first_operand && i < info.first_operand + info.num_operands;
    const bool gm = operand && instr.operand(i).space == GM;
    const bool plain = operand && !m_.options.record_tiles;
    out.push_back(gm ? m_.gm.normalise(instr.args[i]) : plain ? instr.operand(i).word() : instr.args[i]);
  }
}

void Core::record_time(const Instr& instr, const OpInfo& info) {
  if (counting()) {
    record_accesses(instr, info);
    return;
  }
  const bool on_chip = info.kind == OpKind::kExec && !touches_gm(instr, info);
  if (const uint32_t* known = on_chip ? m_.known_items.find(instr) : nullptr) {
    record.items.push_back(*known);
    return;
  }
  TimeKey d;
  Cost cost;
  d.kind = info.kind;
  d.slot = info.slot;
  d.op = instr.op;
  d.line = instr.line;
  if (info.kind == OpKind::kExec) {
    describe_exec(instr, info, d, cost);
  } else if (!describe_sync(instr, d)) {
    return;  // malformed; the value simulation reports it
  }
  record.items.push_back(m_.interner.id(d, cost));
  if (on_chip) m_.known_items.add(instr, record.items.back());
}

bool Core::touches_gm(const Instr& instr, const OpInfo& info) {
  for (int i = 0; i < info.num_operands; ++i) {
    if (instr.operand(info.first_operand + i).space == GM) return true;
  }
  return false;
}

bool Core::describe_sync(const Instr& instr, TimeKey& d) const {
  const int64_t* a = instr.args;
  switch (d.kind) {
    case OpKind::kSetFlag:
    case OpKind::kWaitFlag: {
      if (a[0] < 0 || a[0] >= kNumEvents || a[1] < 0 || a[1] >= num_ids_) return false;
      const EventInfo& e = OpTable::get().events[a[0]];
      d.slot = d.kind == OpKind::kSetFlag ? e.source : e.destination;
      d.event = static_cast<int16_t>(a[0] * num_ids_ + a[1]);
      return true;
    }
    case OpKind::kBarrier: {
      const int slot = barrier_slot(a[0]);
      if (slot == kSlotNone) return false;
      d.slot = static_cast<uint8_t>(slot == kSlotAll ? int{kS} : slot);
      return true;
    }
    case OpKind::kCrossSet:
      if (cross_mode(a[0]) < 0 || cross_slot(a[1]) < 0) return false;
      d.mode = static_cast<int16_t>(cross_mode(a[0]));
      d.slot = static_cast<uint8_t>(cross_slot(a[1]));
      d.event = static_cast<int16_t>(a[2]);
      return true;
    case OpKind::kCrossWait:
      d.event = static_cast<int16_t>(a[0]);
      return true;
    default:
      return true;
  }
}

void Core::describe_exec(const Instr& instr, const OpInfo& info, TimeKey& d, Cost& c) {
  const OpImpl& impl = kOpImpls[instr.op];
  if (impl.cost != nullptr) {
    c = impl.cost(instr, chip);
    d.busy = static_cast<float>(c.busy);
    d.latency = static_cast<float>(c.latency);
    d.gm_rate = static_cast<float>(c.gm_rate);
    d.hbm_rate = static_cast<float>(c.hbm_rate);
    d.assumed = static_cast<float>(c.assumed);
    d.work = static_cast<float>(c.work);
  }
  d.num_accesses = record_accesses(instr, info);
}

uint32_t Core::record_accesses(const Instr& instr, const OpInfo& info) {
  const OpImpl& impl = kOpImpls[instr.op];
  // Elements that scalars read and write have their price in cycles; the bandwidth they take is next to nothing.
  if (info.slot == kS || impl.accesses == nullptr || !touches_gm(instr, info)) return 0;
  accesses_.clear();
  impl.accesses(nullptr, instr, chip, accesses_);
  const size_t before = record.accesses.size();
  for (const Access& a : accesses_) {
    if (a.space != GM || a.bytes() == 0) continue;
    const GmTensor* t = m_.gm.find(a.base);
    const int32_t tensor = t != nullptr ? static_cast<int32_t>(t - m_.gm.tensors().data()) : -1;
    const int64_t offset = a.base - (t != nullptr ? t->address : 0);
    const bool gapless = a.stride == a.len;
    const int64_t count = gapless ? 1 : a.count, len = gapless ? a.count * a.len : a.len;
    const uint32_t shape = m_.shapes.id({tensor, a.write, count, count > 1 ? a.stride : len, len});
    for (int64_t j = 0; j < a.outer_count; ++j) record.accesses.push_back({offset + j * a.outer_stride, shape});
  }
  return static_cast<uint32_t>(record.accesses.size() - before);
}

void Core::enqueue(int slot, const Item& item) {
  PipeQueue& q = queue[slot];
  if (eager(slot) && q.empty() && execute(slot, item, fence_)) {
    if (waiting_ != 0) settle();
    return;
  }
  q.push(item);
  q.at(q.size() - 1).fence = fence_;
  if (item.kind == ItemKind::kCrossSet) ++pending_cross_sets;
  if (eager(slot)) waiting_ |= 1u << slot;
  if (waiting_ != 0) settle();
}

void Core::issue_flag(const Instr& instr, ItemKind kind) {
  const int64_t event = instr.args[0], id = instr.args[1];
  if (event < 0 || event >= kNumEvents || id < 0 || id >= num_ids_) {
    fault(kSynccheck,
          "event " + std::string(event_name(static_cast<int>(event))) + " id " + std::to_string(id) +
              " does not exist; ids are 0 to " + std::to_string(num_ids_ - 1),
          instr, kS);
    return;
  }
  const EventInfo& e = OpTable::get().events[event];
  if ((slots_ >> e.source & 1) == 0 || (slots_ >> e.destination & 1) == 0) {
    fault(kSynccheck,
          std::string("event ") + event_name(static_cast<int>(event)) + " names a pipe this core does not have", instr,
          kS);
    return;
  }
  Item item;
  item.kind = kind;
  item.event = static_cast<int16_t>(event);
  item.id = static_cast<int16_t>(id);
  item.instr = instr;
  const int slot = kind == ItemKind::kSetFlag ? e.source : e.destination;
  if (slot != kS) {
    enqueue(slot, item);
    return;
  }
  while (!execute(kS, item, fence_)) {
    blocked_id = static_cast<int>(event) * num_ids_ + static_cast<int>(id);
    wait_here(BlockReason::kFlag, instr);
  }
  if (waiting_ != 0) settle();
}

void Core::issue_barrier(const Instr& instr) {
  const int slot = barrier_slot(instr.args[0]);
  if (slot == kSlotNone || (slot >= 0 && (slots_ >> slot & 1) == 0)) {
    fault(kSynccheck, "barrier on a pipe this core does not have", instr, kS);
    return;
  }
  if (slot != kSlotAll) {
    Item item;
    item.kind = ItemKind::kBarrier;
    item.instr = instr;
    enqueue(slot, item);
    return;
  }
  static const std::vector<int> kOrder = {kMTE2, kMTE1, kM, kV, kFIX, kMTE3};
  drain(kOrder);
  while (!all_empty()) wait_here(BlockReason::kBarrier, instr);
  join_all_pipes();
}

void Core::issue_cross_set(const Instr& instr) {
  const int mode = cross_mode(instr.args[0]), slot = cross_slot(instr.args[1]);
  const int64_t id = instr.args[2];
  std::string why;
  if (!mix_) {
    why = "cross-core flags need a kernel with cube and vector cores";
  } else if (id < 0 || id >= chip.num_cross_core_flags) {
    why = "flag id " + std::to_string(id) + " does not exist; ids are 0 to " +
          std::to_string(chip.num_cross_core_flags - 1);
  } else if (mode < 0 || (mode == 1 && aic)) {
    why = "mode " + std::to_string(mode) + " is not for this core type";
  } else if (slot < 0 || (slots_ >> slot & 1) == 0) {
    why = "names a pipe this core does not have";
  }
  if (!why.empty()) {
    fault(kSynccheck, why, instr, kS);
    return;
  }
  Item item;
  item.kind = ItemKind::kCrossSet;
  item.mode = static_cast<uint8_t>(mode);
  item.id = static_cast<int16_t>(id);
  item.instr = instr;
  if (slot == kS) {
    execute(kS, item, fence_);
  } else {
    enqueue(slot, item);
  }
}

void Core::cross_wait(const Instr& instr) {
  const int64_t id = instr.args[0];
  if (!mix_ || id < 0 || id >= chip.num_cross_core_flags) {
    fault(kSynccheck,
          mix_ ? "flag id " + std::to_string(id) + " does not exist"
               : "cross-core flags need a kernel with cube and vector cores",
          instr, kS);
    return;
  }
  auto& counter = counters_[static_cast<size_t>(id)];
  blocked_id = static_cast<int>(id);
  while (counter.empty()) wait_here(BlockReason::kCrossFlag, instr);
  const CrossCount taken = counter.front();
  counter.erase(counter.begin());
  if (!clocks_) return;
  // The wait holds the whole core: whatever is issued from here on, on any pipe, comes after it.
  clock_[kS].join(index, taken.clock);
  if (taken.clock) fence_ = Clock::merged(fence_, *taken.clock);
}

void Core::wait_here(BlockReason reason, const Instr& instr) {
  blocked = reason;
  blocking_ = instr;
  m_.yield(*this);
  blocked = BlockReason::kNone;
}

}  // namespace tla
