/*!
 * \file cost.h
 * \brief What an instruction costs: cost class of the table x prices of the chip.
 *
 * Chip data give for every cost class, as flat keys (tilelang_ascend/arch):
 *   `<class>_interval_cycles`, `<class>_latency_cycles`, `<class>_burst_cycles` (GM only, optional),
 *   `<class>_bytes_per_cycle` (transfers), `<class>_hbm_bytes_per_cycle` (reads of GM that miss L2, optional),
 *   `<class>_per_cycle_b8|b16|b32|b64` (lanes by width of the widest operand),
 *   `<class>_fractals_per_cycle_<dtype>` (mmad).
 * An instruction keeps its pipe for max(interval, work / rate) cycles; its result is complete `latency` cycles later.
 */
#ifndef TILELANG_ASCEND_ISA_COST_H_
#define TILELANG_ASCEND_ISA_COST_H_

#include "lanes.h"

namespace tla {

/*! \brief A number of the chip data; rate 0 means that there is none. */
struct PricedValue {
  double value = 0;
  bool assumed = false;
};

/*! \brief Prices of one cost class. */
struct ClassPrice {
  PricedValue interval, latency, burst;
  PricedValue bytes;         //!< bytes per cycle
  PricedValue hbm_bytes;     //!< GM only: bytes per cycle of what L2 does not hold; 0: as `bytes`
  PricedValue lanes[4];      //!< lanes per cycle by log2 of the element size
  PricedValue fractals[16];  //!< fractal products per cycle by dtype code
};

/*! \brief Geometry of the UB banks. */
struct BankShape {
  int groups = 0;               //!< 32-byte rows go round the groups; 0: conflicts are not modelled
  int64_t bank_bytes = 0;       //!< bytes of one bank of a group
  double reads_per_cycle = 1;   //!< reads one group serves in a cycle
  double write_penalty = 0;     //!< extra cycles per repeat when a write meets a read in the same bank
  double broadcast_cycles = 0;  //!< least cycles per repeat when a source has block stride 0
};

struct CostTables {
  ClassPrice price[kNumCostClasses];
  BankShape banks;
};

namespace isa {

/*! \brief Price of an instruction that moves `bytes` on chip. */
Cost bytes_cost(const Instr& instr, const ChipParams& chip, double bytes);

/*! \brief The same, of bytes in `runs` that each take a while. */
Cost runs_cost(const Instr& instr, const ChipParams& chip, double bytes, double runs);

/*! \brief Price of `lanes` lanes of elements of `size` bytes. */
Cost lanes_cost(const Instr& instr, const ChipParams& chip, int size, double lanes);

/*! \brief Price of `count` fractal products of a dtype. */
Cost fractals_cost(const Instr& instr, const ChipParams& chip, uint8_t dtype, double count);

/*! \brief Price of a lane-wise vector instruction, UB bank conflicts included. */
Cost vector_cost(const Instr& instr, const VectorForm& form, const ChipParams& chip);

/*! \brief Price of a transfer from or to GM in `rows` bursts; the machine prices the bytes. */
Cost gm_cost(const Instr& instr, const ChipParams& chip, double rows);

/*! \brief Price of an instruction that costs its interval only (scalar pipe). */
Cost fixed_cost(const Instr& instr, const ChipParams& chip);

/*!
 * \brief Cycles UB needs for one repeat in steady state, on average; 1 when nothing conflicts.
 *
 * A group serves `reads_per_cycle` reads and one write per cycle; a write that meets a read in the same bank waits. The
 * write of a repeat happens while the next repeat is read, so equal start addresses do not conflict. The
 * blocks of a source with block stride 0 are one row, read once.
 */
double bank_cycles(const BankShape& banks, const Lanes& lanes, const int64_t* heads, bool reads_destination);

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_COST_H_
