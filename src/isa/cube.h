/*!
 * \file cube.h
 * \brief Layout constants of the cube memories.
 *
 * A fractal is 16 rows of 32 bytes. L0A holds fractals row by row (Zz) on C220 and column by column (Nz) on 3510. L0B
 * is Zn: fractals of 16 columns (N) x C0 (K), stored N-major, all fractals of one K step together. L0C is Nz with
 * 16x16 fractals of 4-byte elements.
 */
#ifndef TILELANG_ASCEND_ISA_CUBE_H_
#define TILELANG_ASCEND_ISA_CUBE_H_

#include "lanes.h"

namespace tla {
namespace isa {

constexpr int kFractalSide = 16;
constexpr int kFractalBytes = 512;
constexpr int kL1Align = 32;
constexpr int kL0CAlign = 64;

inline int64_t fractals_of(int64_t elements, int64_t side) { return (elements + side - 1) / side; }

/*! \brief Fractals of L0A lie column by column. The chip data give the layout by their generation. */
inline bool l0a_is_nz(const ChipParams& chip) { return chip.generation == "3510"; }

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_CUBE_H_
