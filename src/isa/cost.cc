/*!
 * \file cost.cc
 * \brief Prices of cost classes and UB bank conflicts.
 */
#include "cost.h"

#include <stdexcept>
#include <string>

namespace tla {

namespace {

PricedValue optional_value(const ChipParams& chip, const std::string& key) {
  if (!chip.has(key)) return {};
  return {chip.at(key), chip.is_assumed(key)};
}

PricedValue required_value(const ChipParams& chip, const std::string& key) {
  return {chip.at(key), chip.is_assumed(key)};
}

/*! \brief dtype names by code. */
const char* const kDTypeNames[16] = {"",        "int8",  "uint8",         "int16",      "uint16",   "int32",
                                     "uint32",  "int64", "uint64",        "float16",    "bfloat16", "float32",
                                     "float64", "bool",  "float8_e4m3fn", "float8_e5m2"};

/*! \brief All zero where the chip has none of the class: the loader of the chip data sees to it that it has no such
 * instruction. */
ClassPrice read_price(const ChipParams& chip, const std::string& name) {
  ClassPrice p;
  if (!chip.has(name + "_interval_cycles")) return p;
  p.interval = required_value(chip, name + "_interval_cycles");
  p.latency = required_value(chip, name + "_latency_cycles");
  p.burst = optional_value(chip, name + "_burst_cycles");
  p.bytes = optional_value(chip, name + "_bytes_per_cycle");
  p.hbm_bytes = optional_value(chip, name + "_hbm_bytes_per_cycle");
  for (int i = 0; i < 4; ++i) p.lanes[i] = optional_value(chip, name + "_per_cycle_b" + std::to_string(8 << i));
  for (int i = 1; i < 16; ++i) p.fractals[i] = optional_value(chip, name + "_fractals_per_cycle_" + kDTypeNames[i]);
  return p;
}

BankShape read_banks(const ChipParams& chip) {
  BankShape b;
  b.groups = static_cast<int>(chip.at("ub_bank_groups"));
  b.bank_bytes = static_cast<int64_t>(chip.at("ub_bank_bytes"));
  b.reads_per_cycle = chip.at("ub_bank_reads_per_cycle");
  b.write_penalty = chip.at("ub_bank_write_penalty_cycles");
  b.broadcast_cycles = optional_value(chip, "ub_bank_broadcast_cycles").value;
  return b;
}

}  // namespace

std::shared_ptr<const CostTables> make_cost_tables(const ChipParams& chip) {
  auto tables = std::make_shared<CostTables>();
  for (int i = 0; i < kNumCostClasses; ++i) tables->price[i] = read_price(chip, kCostClassNames[i]);
  tables->banks = read_banks(chip);
  return tables;
}

namespace isa {
namespace {

const ClassPrice& price_of(const Instr& instr, const ChipParams& chip) {
  return chip.costs->price[kOpCostClass[instr.op]];
}

/*! \brief max(interval, work / rate), and how much of it is an assumption. */
Cost busy_cost(const ClassPrice& price, const PricedValue& rate, double work) {
  const double busy = rate.value > 0 ? work / rate.value : 0;
  Cost c;
  c.busy = std::max(price.interval.value, busy);
  c.latency = price.latency.value;
  c.assumed_latency = price.latency.assumed ? c.latency : 0;
  c.work = work;
  c.peak = rate.value;
  c.assumed = (busy > price.interval.value ? rate.assumed : price.interval.assumed) ? c.busy : 0;
  return c;
}

int log2_size(int size) { return size >= 8 ? 3 : size >= 4 ? 2 : size >= 2 ? 1 : 0; }

constexpr int kMaxGroups = 64;

/*! \brief Rows one operand touches in one repeat: group and bank of every 32-byte block. */
struct Rows {
  int count = 0;
  int group[8];
  int64_t bank[8];
};

Rows rows_of_repeat(const BankShape& banks, const Lanes& l, int i, int64_t head, int64_t repeat) {
  Rows rows;
  const int64_t blk = l.masked ? l.blk[i] : kBlockBytes;
  const int64_t rep = l.masked ? l.rep[i] : static_cast<int64_t>(l.per_repeat) * l.size[i];
  rows.count = std::min(8, (l.per_repeat * l.size[i] + kBlockBytes - 1) / kBlockBytes);
  for (int b = 0; b < rows.count; ++b) {
    const int64_t address = head + repeat * rep + b * blk;
    rows.group[b] = static_cast<int>((address / kBlockBytes) % banks.groups);
    rows.bank[b] = address / (banks.bank_bytes * banks.groups);
  }
  return rows;
}

bool meets(const Rows& a, const Rows& b) {
  for (int i = 0; i < a.count; ++i) {
    for (int j = 0; j < b.count; ++j) {
      if (a.group[i] == b.group[j] && a.bank[i] == b.bank[j]) return true;
    }
  }
  return false;
}

}  // namespace

namespace {

/*! \brief All blocks of operand `i` are one row. */
bool repeats_block(const Lanes& l, int i) { return l.masked && l.blk[i] == 0; }

/*! \brief Cycles in which repeat `r` + 1 is read and repeat `r` written; the last repeat repeats itself. */
double cycles_of_repeat(const BankShape& banks, const Lanes& l, const int64_t* heads, bool reads_destination,
                        int64_t r) {
  int reads[kMaxGroups] = {}, writes[kMaxGroups] = {};
  const bool has_next = l.repeats() > 1;
  const Rows written = rows_of_repeat(banks, l, 0, heads[0], r);
  for (int b = 0; b < written.count; ++b) ++writes[written.group[b]];
  bool conflict = false;
  for (int i = reads_destination ? 0 : 1; i < l.operands; ++i) {
    Rows rows = rows_of_repeat(banks, l, i, heads[i], has_next ? r + 1 : 0);
    if (repeats_block(l, i)) rows.count = std::min(rows.count, 1);
    for (int b = 0; b < rows.count; ++b) ++reads[rows.group[b]];
    conflict = conflict || (has_next && meets(rows, written));
  }
  double cycles = 1;
  for (int g = 0; g < banks.groups; ++g) {
    // Two accesses in all per group and cycle: a read and a write, or two reads where the chip has them.
    const double both = (reads[g] + writes[g]) / 2.0;
    cycles = std::max({cycles, reads[g] / banks.reads_per_cycle, static_cast<double>(writes[g]), both});
  }
  return cycles + (conflict ? banks.write_penalty : 0);
}

}  // namespace

double bank_cycles(const BankShape& banks, const Lanes& l, const int64_t* heads, bool reads_destination) {
  if (banks.groups <= 0 || banks.groups > kMaxGroups) return 1;
  // An operand that steps by a block a repeat is where it was after all groups; those that step by 128 and by 256 bytes
  // meet again after four repeats.
  const int64_t n = std::clamp<int64_t>(l.repeats() - 1, 1, banks.groups);
  double sum = 0;
  for (int64_t r = 0; r < n; ++r) sum += cycles_of_repeat(banks, l, heads, reads_destination, r);
  double cycles = sum / static_cast<double>(n);
  for (int i = 1; i < l.operands; ++i) {
    if (repeats_block(l, i)) cycles = std::max(cycles, banks.broadcast_cycles);
  }
  return cycles;
}

Cost bytes_cost(const Instr& instr, const ChipParams& chip, double bytes) {
  const ClassPrice& price = price_of(instr, chip);
  return busy_cost(price, price.bytes, bytes);
}

Cost runs_cost(const Instr& instr, const ChipParams& chip, double bytes, double runs) {
  const ClassPrice& price = price_of(instr, chip);
  Cost c = busy_cost(price, price.bytes, bytes);
  const double least = runs * price.burst.value;
  if (least > c.busy) {
    c.busy = least;
    c.assumed = price.burst.assumed ? least : 0;
  }
  return c;
}

Cost lanes_cost(const Instr& instr, const ChipParams& chip, int size, double lanes) {
  const ClassPrice& price = price_of(instr, chip);
  return busy_cost(price, price.lanes[log2_size(size)], lanes);
}

Cost fractals_cost(const Instr& instr, const ChipParams& chip, uint8_t dtype, double count) {
  const ClassPrice& price = price_of(instr, chip);
  return busy_cost(price, price.fractals[dtype & 15], count);
}

Cost vector_cost(const Instr& instr, const VectorForm& form, const ChipParams& chip) {
  const Lanes l = decode_lanes(instr, form);
  int64_t heads[kMaxOperands] = {};
  int widest = 1;
  for (int i = 0; i < form.operands; ++i) {
    heads[i] = instr.operand(form.operand(i)).offset;
    widest = std::max(widest, l.size[i]);
  }
  const double repeats = static_cast<double>(l.repeats());
  Cost c = lanes_cost(instr, chip, widest, repeats * l.per_repeat);
  const double memory = repeats * bank_cycles(chip.costs->banks, l, heads, form.reads_destination);
  if (memory > c.busy) {
    c.conflict = memory - c.busy;
    c.busy = memory;
    c.assumed = 0;
  }
  return c;
}

Cost gm_cost(const Instr& instr, const ChipParams& chip, double rows) {
  const ClassPrice& price = price_of(instr, chip);
  Cost c;
  c.busy = std::max(price.interval.value, rows * price.burst.value);
  c.assumed = (c.busy > price.interval.value ? price.burst.assumed : price.interval.assumed) ? c.busy : 0;
  c.latency = price.latency.value;
  c.assumed_latency = price.latency.assumed ? c.latency : 0;
  c.gm_rate = price.bytes.value;
  c.hbm_rate = price.hbm_bytes.value > 0 ? price.hbm_bytes.value : c.gm_rate;
  return c;
}

Cost fixed_cost(const Instr& instr, const ChipParams& chip) { return busy_cost(price_of(instr, chip), {}, 0); }

}  // namespace isa
}  // namespace tla
