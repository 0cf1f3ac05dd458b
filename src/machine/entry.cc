/* C entry points of programs: they issue into the core that runs on this thread (docs/ir.md section 4). */
#include <cstdint>

#include "machine.h"
#include "texts.h"

#define TLA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Outside of a run there is no core to issue to, and a C function has no way to fail: the call does nothing.
inline int64_t issue(int32_t op, int32_t line, int32_t n, const int64_t* args) {
  tla::Core* core = tla::Machine::current();
  return core != nullptr ? core->issue(op, line, n, args) : 0;
}

}  // namespace

TLA_EXPORT void tla_issue(int32_t op, int32_t line, int32_t n, const int64_t* args) { issue(op, line, n, args); }

TLA_EXPORT int64_t tla_scalar(int32_t op, int32_t line, int32_t n, const int64_t* args) {
  return issue(op, line, n, args);
}

// In loops of programs that may issue nothing.
TLA_EXPORT void tla_breathe(void) {
  if (tla::Core* core = tla::Machine::current()) core->breathe();
}

// At the end of iteration k of a loop, which runs to `end` and repeats itself every `period` iterations.
TLA_EXPORT void tla_next(int32_t loop, int64_t k, int64_t end, int32_t period) {
  if (tla::Core* core = tla::Machine::current()) core->next_iteration(loop, k, end, period);
}

// Whether the iteration that begins need only issue what reaches GM.
TLA_EXPORT int32_t tla_counts(void) {
  const tla::Core* core = tla::Machine::current();
  return core != nullptr && core->counting() ? 1 : 0;
}

TLA_EXPORT int32_t tla_core_type(void) {
  const tla::Core* core = tla::Machine::current();
  return core != nullptr && core->aic ? 0 : 1;
}

// A tile of the program: its number in operand words. The name may be null.
TLA_EXPORT int32_t tla_tile(int32_t space, int64_t base, int64_t bytes, int64_t versions, int64_t elements,
                            const char* name) {
  tla::Core* core = tla::Machine::current();
  return core != nullptr ? core->declare_tile(space, base, bytes, versions, elements, name) : 0;
}

// Bytes of a memory of the core, or of another one of its block, that a program may use.
TLA_EXPORT int64_t tla_capacity(int32_t space) {
  tla::Core* core = tla::Machine::current();
  if (core == nullptr || space < 0 || space >= tla::kNumSpaces) return 0;
  return core->capacity_in_block(space);
}

// What the twin's headers find wrong with a call before it is issued; op -1: no instruction is meant.
TLA_EXPORT void tla_invalid(int32_t op, int32_t line, const char* why) {
  tla::Core* core = tla::Machine::current();
  if (core == nullptr) return;
  tla::Instr instr;
  instr.op = op;
  instr.line = line;
  core->report_invalid(instr, why);
}

// Code of a constant text, as it stands in the stream.
TLA_EXPORT int64_t tla_text(const char* text) { return tla::text_code(text); }

#define P0
#define P1 , int64_t a0
#define P2 P1, int64_t a1
#define P3 P2, int64_t a2
#define P4 P3, int64_t a3
#define P5 P4, int64_t a4
#define P6 P5, int64_t a5
#define P7 P6, int64_t a6
#define P8 P7, int64_t a7
#define P9 P8, int64_t a8
#define P10 P9, int64_t a9
#define P11 P10, int64_t a10
#define P12 P11, int64_t a11
#define P13 P12, int64_t a12
#define P14 P13, int64_t a13
#define P15 P14, int64_t a14
#define P16 P15, int64_t a15
#define P17 P16, int64_t a16
#define P18 P17, int64_t a17
#define P19 P18, int64_t a18
#define P20 P19, int64_t a19
#define P21 P20, int64_t a20
#define P22 P21, int64_t a21
#define P23 P22, int64_t a22
#define P24 P23, int64_t a23

#define V1 a0
#define V2 V1, a1
#define V3 V2, a2
#define V4 V3, a3
#define V5 V4, a4
#define V6 V5, a5
#define V7 V6, a6
#define V8 V7, a7
#define V9 V8, a8
#define V10 V9, a9
#define V11 V10, a10
#define V12 V11, a11
#define V13 V12, a12
#define V14 V13, a13
#define V15 V14, a14
#define V16 V15, a15
#define V17 V16, a16
#define V18 V17, a17
#define V19 V18, a18
#define V20 V19, a19
#define V21 V20, a20
#define V22 V21, a21
#define V23 V22, a22
#define V24 V23, a23

#define TLA_ARITY(n)                                                 \
  TLA_EXPORT void tla_issue_##n(int32_t op, int32_t line P##n) {     \
    const int64_t args[] = {V##n};                                   \
    issue(op, line, n, args);                                        \
  }                                                                  \
  TLA_EXPORT int64_t tla_scalar_##n(int32_t op, int32_t line P##n) { \
    const int64_t args[] = {V##n};                                   \
    return issue(op, line, n, args);                                 \
  }

TLA_EXPORT void tla_issue_0(int32_t op, int32_t line) { issue(op, line, 0, nullptr); }
TLA_EXPORT int64_t tla_scalar_0(int32_t op, int32_t line) { return issue(op, line, 0, nullptr); }
TLA_ARITY(1)
TLA_ARITY(2)
TLA_ARITY(3)
TLA_ARITY(4)
TLA_ARITY(5)
TLA_ARITY(6)
TLA_ARITY(7)
TLA_ARITY(8)
TLA_ARITY(9)
TLA_ARITY(10)
TLA_ARITY(11)
TLA_ARITY(12)
TLA_ARITY(13)
TLA_ARITY(14)
TLA_ARITY(15)
TLA_ARITY(16)
TLA_ARITY(17)
TLA_ARITY(18)
TLA_ARITY(19)
TLA_ARITY(20)
TLA_ARITY(21)
TLA_ARITY(22)
TLA_ARITY(23)
TLA_ARITY(24)
