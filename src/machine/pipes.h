/* The pipes of a core as dense indices, their names, and which core type has which. */
#ifndef TLA_MACHINE_PIPES_H_
#define TLA_MACHINE_PIPES_H_

#include <cstdint>

#include "chip.h"

namespace tla {

/*! \brief Dense index of a pipe: pipe codes have a hole between MTE3 (5) and FIX (10). */
enum Slot : uint8_t { kS = 0, kV, kM, kMTE1, kMTE2, kMTE3, kFIX, kNumSlots };

inline int slot_of_pipe(int pipe) { return pipe == kPipeFIX ? kFIX : pipe; }
inline int pipe_of_slot(int slot) { return slot == kFIX ? kPipeFIX : slot; }
inline const char* slot_name(int slot) { return pipe_name(pipe_of_slot(slot)); }

/*! \brief Bit mask of the slots a core type has. */
inline uint32_t slots_of_core(bool aic) {
  constexpr uint32_t kShared = 1u << kS | 1u << kMTE2 | 1u << kMTE3;
  return aic ? kShared | 1u << kM | 1u << kMTE1 | 1u << kFIX : kShared | 1u << kV;
}

/*! \brief Pipes that move data; the adversarial schedule lands their transfers as late as it may. */
constexpr uint32_t kTransferSlots = 1u << kMTE1 | 1u << kMTE2 | 1u << kMTE3 | 1u << kFIX;

}  // namespace tla

#endif  // TLA_MACHINE_PIPES_H_
