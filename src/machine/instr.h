/*
 * The contract between the machine (src/machine) and the instruction semantics (src/isa).
 *
 * The machine decides *when* an instruction executes, what it may touch and which instructions race with it. `src/isa`
 * says *what* one instruction does: its values, the bytes it touches and what it costs. One `OpImpl` per opcode of the
 * generated table (docs/ir.md, sections 3 and 4) is all that passes between the two.
 */
#ifndef TLA_MACHINE_INSTR_H_
#define TLA_MACHINE_INSTR_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "chip.h"
#include "isa_table.h"  // generated: codes and shapes of all instructions (docs/ir.md section 4)

namespace tla {

// Short names of the table's codes: memory spaces (enum Space) and element types (enum DType).
constexpr Space GM = SPACE_GM, L1 = SPACE_L1, L0A = SPACE_L0A, L0B = SPACE_L0B, L0C = SPACE_L0C, UB = SPACE_UB,
                BT = SPACE_BT, FB = SPACE_FB;
constexpr int kNumSpaces = 8;

constexpr DType kInt8 = DT_int8, kUInt8 = DT_uint8, kInt16 = DT_int16, kUInt16 = DT_uint16, kInt32 = DT_int32,
                kUInt32 = DT_uint32, kInt64 = DT_int64, kUInt64 = DT_uint64, kFloat16 = DT_float16,
                kBFloat16 = DT_bfloat16, kFloat32 = DT_float32, kFloat64 = DT_float64, kBool = DT_bool,
                kFloat8E4M3 = DT_float8_e4m3fn, kFloat8E5M2 = DT_float8_e5m2;
constexpr int kNumDTypes = 16;

/*! \brief Bytes of one element; 0 for a code that is no dtype. */
inline int itemsize(uint8_t dtype) {
  static constexpr uint8_t kSize[kNumDTypes] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1};
  return dtype < kNumDTypes ? kSize[dtype] : 0;
}

/*! \brief True for the floating-point dtypes. */
inline bool is_float(uint8_t dtype) {
  return (dtype >= kFloat16 && dtype <= kFloat64) || dtype == kFloat8E4M3 || dtype == kFloat8E5M2;
}

/*!
 * \brief A decoded operand word: head address of what an instruction reads or writes (docs/ir.md section 4).
 *
 * Words of tiles have a bias in front of the offset: an index that leads out of the tile, in front of address 0 even,
 * does not change the number of the tile.
 */
struct Operand {
  uint8_t space;      //!< Space
  uint8_t dtype;      //!< DType
  uint16_t tile = 0;  //!< number of a tile of the core, 0 = not known
  int64_t offset;     //!< byte offset inside the space; for GM the host address

  static constexpr int64_t kBias = int64_t{1} << 31;

  explicit Operand(int64_t word)
      : space(static_cast<uint8_t>(static_cast<uint64_t>(word) >> 56)),
        dtype(static_cast<uint8_t>((static_cast<uint64_t>(word) >> 48) & 0xFF)),
        offset(word & 0xFFFFFFFFFFFFll) {
    if (space == SPACE_GM || offset >> 32 == 0) return;
    tile = static_cast<uint16_t>(offset >> 32);
    offset = (offset & 0xFFFFFFFFll) - kBias;
  }

  /*! \brief The word without the tile. */
  int64_t word() const {
    return static_cast<int64_t>(static_cast<uint64_t>(space) << 56 | static_cast<uint64_t>(dtype) << 48 |
                                (static_cast<uint64_t>(offset) & 0xFFFFFFFFFFFFull));
  }
};

/*! \brief A tile of a program: `versions` pieces of memory side by side, of which an instruction works on one. */
struct Tile {
  uint8_t space = UB;
  int64_t base = 0;   //!< byte offset inside the space
  int64_t bytes = 0;  //!< of one version, with the padding that instructions may touch
  int64_t versions = 1;
  int64_t elements = 0;  //!< bytes up to the end of the last element: what the scalar unit may touch
  std::string name;      //!< empty when unknown
  uint16_t id = 0;       //!< the same for the same tile in the programs of all cores
};

/*! \brief The float behind a float argument: float64 bits of a value already rounded to the operand's dtype. */
inline double float_arg(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/*! \brief Atomic mode of writes to GM, as selected by `set_atomic` before the instruction was issued. */
enum AtomicOp : uint8_t { kAtomicNone = 0, kAtomicAdd, kAtomicMax, kAtomicMin };

/*! \brief One issued instruction. `args` lives at least as long as the call it is handed to. */
struct Instr {
  int32_t op = 0;    //!< Op
  int32_t line = 0;  //!< source line, 0 when unknown
  int32_t nargs = 0;
  AtomicOp atomic_op = kAtomicNone;  //!< state of the core when the instruction was issued
  uint8_t atomic_dtype = 0;          //!< DType of the atomic, 0 when none
  uint32_t order = 0;                //!< number of the instruction in the program of its core
  const int64_t* args = nullptr;     //!< attr codes, then operands and arguments in table order

  Operand operand(int i) const { return Operand(args[i]); }
  double f(int i) const { return float_arg(args[i]); }
};

/*!
 * \brief Whose memory an access means: that of the core itself, or of another core of its block, where the chip has a
 * path there (L0C -> UB, UB -> L1). Vector cores are 0 and 1.
 */
constexpr int8_t kOwnMemory = -1, kCubeMemory = 2;

/*!
 * \brief A strided set of bytes: `[base + j*outer_stride + i*stride, + len)` for i < count, j < outer_count.
 *
 * Every byte an instruction reads or writes must be in one of its accesses, and no byte it leaves alone may be in a
 * write access (masked-off lanes, gaps). Reading and writing the same bytes (accumulation) is two accesses.
 */
struct Access {
  uint8_t space = UB;
  uint16_t tile = 0;  //!< number of the tile it has to stay in, 0 = not known
  bool write = false;
  bool atomic = false;         //!< atomic update of GM: does not conflict with other atomic updates
  int8_t holder = kOwnMemory;  //!< whose on-chip memory it is
  int32_t align = 1;           //!< required alignment of `base` in bytes (local memories)
  int64_t base = 0;            //!< byte offset in the space; host address for GM
  int64_t len = 0;             //!< bytes of one contiguous piece
  int64_t count = 1, stride = 0;
  int64_t outer_count = 1, outer_stride = 0;

  int64_t bytes() const { return len * count * outer_count; }
};

/*! \brief What `accesses` fills. Reused from instruction to instruction, so it does not allocate in steady state. */
using AccessList = std::vector<Access>;

/*! \brief Shadow of a byte with no defined bit; what memory holds before anything is written to it. */
constexpr uint8_t kUndefinedByte = 0xFF;

/*!
 * \brief Shadow of a byte that comes from an element of a fresh output nobody has written.
 *
 * Writing it back to such an output (a tile that is loaded, changed in part and stored) leaves the element unwritten;
 * where other undefined bytes matter, it is as undefined as they are.
 */
constexpr uint8_t kUnwrittenByte = 0x55;

/*! \brief Contents of fresh memory: NaN in every floating-point format, -1 in integers. It never looks like a result.
 */
constexpr uint8_t kPoison = 0xFF;

/*! \brief One on-chip memory of a core. */
struct Memory {
  uint8_t* data = nullptr;
  uint8_t* shadow = nullptr;  //!< the undefined bits of each data byte, 0 = all defined. Null when initcheck is off
  int64_t size = 0;
};

/*! \brief The on-chip memories of one core. Spaces the core does not have, have size 0 (`GM` is never used here). */
struct CoreMemory {
  Memory space[kNumSpaces];
  Memory& operator[](int s) { return space[s]; }
  const Memory& operator[](int s) const { return space[s]; }
};

/*!
 * \brief What an executing instruction sees.
 *
 * The machine has checked every access of the instruction (range, alignment, GM tensor, writability) before `exec` is
 * called, so `exec` does no bounds checks; an instruction that fails a check is reported and not executed.
 *
 * Undefined values (initcheck) work as in Valgrind: a lane of a result is undefined (`kUndefinedByte` in every byte)
 * where any bit of its input lanes is; only results of compare, and, or, not are known bit by bit, because masks have
 * one bit per lane. Nothing is reported while undefinedness merely travels, and through a selection mask it does.
 * Call `report_undefined` when it reaches
 *   - GM memory without a shadow (`gm_shadow` is null: a user tensor),
 *   - a scalar or control value (`get_value`), a gather offset,
 *   - an accumulated lane of a reduction or a `mmad` element inside m x n x k.
 * After the report treat the value as defined, to report each cause once.
 */
class ExecContext {
 public:
  CoreMemory& mem;
  const ChipParams& chip;
  const bool track_undefined;       //!< initcheck on: shadows exist and must be maintained
  std::shared_ptr<void> isa_state;  //!< scratch of src/isa for this core (for example fp32 images of L0A/L0B)

  ExecContext(CoreMemory& m, const ChipParams& c, bool track) : mem(m), chip(c), track_undefined(track) {}
  virtual ~ExecContext() = default;

  /*! \brief Data behind an operand, in whatever space it lies. */
  uint8_t* data(const Operand& o) const {
    return o.space == GM ? reinterpret_cast<uint8_t*>(o.offset) : mem.space[o.space].data + o.offset;
  }
  template <typename T>
  T* as(const Operand& o) const {
    return reinterpret_cast<T*>(data(o));
  }
  /*! \brief Shadow behind an operand; null when it is not tracked (initcheck off, or a user tensor in GM). */
  uint8_t* shadow(const Operand& o) {
    if (!track_undefined) return nullptr;
    return o.space == GM ? gm_shadow(o.offset) : mem.space[o.space].shadow + o.offset;
  }
  /*! \brief On-chip memories of `holder` (`Access::holder`), a core of the same block. Accesses there have been
   * checked.
   */
  virtual CoreMemory& memory_of(int8_t holder) = 0;
  /*! \brief Shadow of scratch memory in GM. One lookup serves the whole operand: an access never leaves its tensor. */
  virtual uint8_t* gm_shadow(int64_t address) = 0;
  /*! \brief Note that `bytes` of GM from `address` on were written. They have a value now, unless it was an atomic
   * update. */
  virtual void mark_written(int64_t address, int64_t bytes, bool update) = 0;
  /*! \brief The opposite: bytes of an output nobody wrote have been copied there. False when `address` lies in no fresh
   * output. */
  virtual bool mark_unwritten(int64_t /*address*/, int64_t /*bytes*/) { return false; }
  /*! \brief Shadow of bytes of a fresh output. False, and nothing stored, when all are defined or it is another tensor.
   */
  virtual bool unwritten_shadow(int64_t /*address*/, int64_t /*bytes*/, uint8_t* /*shadow*/) { return false; }
  /*! \brief Report that undefined bytes `[offset, offset+len)` of `space` reached a place that matters. */
  virtual void report_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len, const char* where) = 0;
  /*! \brief The scalar an instruction returns comes from undefined bytes. */
  virtual void hold_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len) {
    report_undefined(instr, space, offset, len, "scalar value");
  }
  /*! \brief Report a value the instruction cannot work with (for example a stride its field cannot hold). */
  virtual void report_invalid(const Instr& instr, const char* why) = 0;
  /*! \brief Append to what the core has printed. */
  virtual void print(const std::string& text) = 0;
  /*! \brief True when the next text starts a line. */
  virtual bool at_line_start() const = 0;
  /*! \brief The program says it cannot go on. Does not return inside a machine. */
  virtual void trap(const Instr& instr) = 0;
};

/*! \brief Cost of one instruction on its pipe, in cycles of the core clock. */
struct Cost {
  double busy = 0;      //!< the pipe cannot start its next instruction earlier than this after the start
  double latency = 0;   //!< additional cycles until the result is complete (seen by flags and barriers only)
  double gm_rate = 0;   //!< instructions that touch GM: bytes per cycle this path can move when GM is not contended
  double hbm_rate = 0;  //!< the same for what L2 does not hold
  double assumed = 0;   //!< part of `busy` that rests on constants the chip data marks as assumed
  // For reports only:
  double assumed_latency = 0;  //!< the same of `latency`
  double conflict = 0;         //!< part of `busy` that is due to conflicts of UB banks
  double work = 0;             //!< useful work: floating point operations of mmad, lanes, or bytes moved on chip
  double peak = 0;             //!< work the pipe could do in a cycle
};

/*!
 * \brief Implementation of one opcode, in src/isa.
 *
 * The machine itself implements set_flag, wait_flag, pipe_barrier, cross_core_set_flag, cross_core_wait_flag,
 * set_atomic, get_block_idx, get_sub_block_idx and get_block_num; their rows are never used and may be empty.
 */
struct OpImpl {
  /*! \brief Execute. Returns the value of the instruction (integers as is, floats as float64 bits), or 0. */
  int64_t (*exec)(ExecContext& ctx, const Instr& instr) = nullptr;
  /*!
   * \brief Append the accesses. `ctx` is for data-dependent footprints (gather reads its offsets); it is null when
   * values are not simulated, and then data-dependent accesses are left out. Offsets read through `ctx` are not checked
   * yet: check them against the size of the space before reading. Must not fail for any argument values.
   */
  void (*accesses)(const ExecContext* ctx, const Instr& instr, const ChipParams& chip, AccessList& out) = nullptr;
  /*! \brief Price. For GM traffic `busy` is the part that does not scale with GM bytes (start-up, bursts). */
  Cost (*cost)(const Instr& instr, const ChipParams& chip) = nullptr;
  /*!
   * \brief Whether the following instruction of the same pipe may rely on this one being complete. Null: the chip's
   * rule for the pipe (`ChipParams::ordered_completion`). Needed where it depends on the arguments, as for `mmad`.
   */
  bool (*in_order)(const Instr& instr, const ChipParams& chip) = nullptr;
};

/*! \brief One row per opcode, defined in src/isa. */
extern const OpImpl kOpImpls[kNumOps];

}  // namespace tla

#endif  // TLA_MACHINE_INSTR_H_
