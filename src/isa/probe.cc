/*!
 * \file probe.cc
 * \brief C entry points to execute, inspect and price one instruction outside a machine: for tests and tools.
 */
#include <algorithm>
#include <exception>
#include <string>

#include "../machine/instr.h"

#define TLA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace tla;

/*! \brief Memories given by the caller; reports are collected as lines of text. */
class ProbeContext : public ExecContext {
 public:
  ProbeContext(CoreMemory& memory, const ChipParams& chip, bool track, Memory gm)
      : ExecContext(memory, chip, track), gm_(gm) {}

  CoreMemory& memory_of(int8_t) override { return mem; }
  uint8_t* gm_shadow(int64_t address) override {
    const int64_t offset = address - reinterpret_cast<int64_t>(gm_.data);
    return gm_.shadow != nullptr && offset >= 0 && offset < gm_.size ? gm_.shadow + offset : nullptr;
  }
  void mark_written(int64_t, int64_t, bool) override {}
  void report_undefined(const Instr&, uint8_t space, int64_t offset, int64_t len, const char* where) override {
    text += "undefined space=" + std::to_string(space) + " offset=" + std::to_string(offset) +
            " len=" + std::to_string(len) + " reach " + where + "\n";
  }
  void report_invalid(const Instr&, const char* why) override { text += std::string("invalid: ") + why + "\n"; }

  void print(const std::string& printed) override { text += printed; }
  bool at_line_start() const override { return text.empty() || text.back() == '\n'; }
  void trap(const Instr&) override { text += "trap\n"; }

  std::string text;

 private:
  Memory gm_;
};

Instr make_instr(int32_t op, int32_t nargs, const int64_t* args) {
  Instr instr;
  instr.op = op;
  instr.nargs = nargs;
  instr.args = args;
  return instr;
}

}  // namespace

/*! \brief Parse chip data; null when they are wrong. Freed by tla_probe_free_chip. */
TLA_EXPORT void* tla_probe_chip(const char* json) {
  try {
    return new ChipParams(parse_chip(json));
  } catch (const std::exception&) {
    return nullptr;
  }
}

TLA_EXPORT void tla_probe_free_chip(void* chip) { delete static_cast<ChipParams*>(chip); }

/*! \brief 1 when the opcode has an implementation. */
TLA_EXPORT int32_t tla_probe_has(int32_t op) { return op >= 0 && op < kNumOps && kOpImpls[op].exec != nullptr; }

/*!
 * \brief Execute one instruction. `data`, `shadow` and `size` are indexed by memory space; entry 0 describes the one GM
 * allocation whose shadow is tracked. `shadow` may be null. Reports go to `text` (cut at `text_size`).
 */
TLA_EXPORT int64_t tla_probe_exec(const void* chip, int32_t op, int32_t nargs, const int64_t* args,
                                  uint8_t* const* data, uint8_t* const* shadow, const int64_t* size, int32_t atomic_op,
                                  int32_t atomic_dtype, char* text, int64_t text_size) {
  CoreMemory memory;
  for (int i = 0; i < kNumSpaces; ++i) memory[i] = {data[i], shadow != nullptr ? shadow[i] : nullptr, size[i]};
  ProbeContext ctx(memory, *static_cast<const ChipParams*>(chip), shadow != nullptr, memory[GM]);
  Instr instr = make_instr(op, nargs, args);
  instr.atomic_op = static_cast<AtomicOp>(atomic_op);
  instr.atomic_dtype = static_cast<uint8_t>(atomic_dtype);
  const int64_t result = kOpImpls[op].exec(ctx, instr);
  const size_t n = std::min(ctx.text.size(), static_cast<size_t>(text_size - 1));
  std::memcpy(text, ctx.text.data(), n);
  text[n] = 0;
  return result;
}

/*!
 * \brief Accesses of one instruction as rows of 10 numbers: space, write, atomic, align, base, len, count, stride,
 * outer count, outer stride. Returns the number of rows; writes at most `capacity` of them. `data` and `size` may be
 * null: data-dependent accesses are then left out.
 */
TLA_EXPORT int64_t tla_probe_accesses(const void* chip, int32_t op, int32_t nargs, const int64_t* args,
                                      uint8_t* const* data, const int64_t* size, int64_t* rows, int64_t capacity) {
  const ChipParams& params = *static_cast<const ChipParams*>(chip);
  CoreMemory memory;
  for (int i = 0; data != nullptr && i < kNumSpaces; ++i) memory[i] = {data[i], nullptr, size[i]};
  ProbeContext ctx(memory, params, false, memory[GM]);
  AccessList list;
  kOpImpls[op].accesses(data != nullptr ? &ctx : nullptr, make_instr(op, nargs, args), params, list);
  for (size_t i = 0; i < list.size() && static_cast<int64_t>(i) < capacity; ++i) {
    const Access& a = list[i];
    const int64_t row[10] = {a.space, a.write, a.atomic, a.align,       a.base,
                             a.len,   a.count, a.stride, a.outer_count, a.outer_stride};
    std::memcpy(rows + 10 * i, row, sizeof(row));
  }
  return static_cast<int64_t>(list.size());
}

/*! \brief Price of one instruction: busy, latency, GM rate, assumed part of busy. */
TLA_EXPORT void tla_probe_cost(const void* chip, int32_t op, int32_t nargs, const int64_t* args, double* cost) {
  const Cost c = kOpImpls[op].cost(make_instr(op, nargs, args), *static_cast<const ChipParams*>(chip));
  cost[0] = c.busy;
  cost[1] = c.latency;
  cost[2] = c.gm_rate;
  cost[3] = c.assumed;
}
