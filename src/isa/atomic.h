/*!
 * \file atomic.h
 * \brief Writes to GM: plain or combined with memory by the atomic mode of the core.
 */
#ifndef TILELANG_ASCEND_ISA_ATOMIC_H_
#define TILELANG_ASCEND_ISA_ATOMIC_H_

#include "../machine/instr.h"

namespace tla {
namespace isa {

/*! \brief Writes rows of an instruction to its GM operand and reports undefined bytes that reach a user tensor. */
class GmWriter {
 public:
  GmWriter(ExecContext& ctx, const Instr& instr, const Operand& d);

  /*! \brief True when the destination has a shadow (a workspace); false for a user tensor. */
  bool tracked() const { return gm_shadow_ != nullptr; }

  /*!
   * \brief Write `bytes` at `offset` bytes from the head. `shadow` may be null. Reports name `space` and `source`, the
   * place of the first byte in the source memory, and clear the shadow (each cause is reported once).
   */
  void write(int64_t offset, const uint8_t* data, uint8_t* shadow, int64_t bytes, uint8_t space, int64_t source);

 private:
  /*! \brief Elements of a fresh output nobody wrote, copied to a fresh output, are not written there either. */
  void keep_unwritten(int64_t address, uint8_t* shadow, int64_t bytes);

  ExecContext& ctx_;
  const Instr& instr_;
  const Operand d_;
  uint8_t* gm_shadow_;
  void (*update_)(uint8_t* d, const uint8_t* s, int64_t bytes) = nullptr;  //!< null: plain copy
  bool invalid_ = false;
};

/*! \brief The write access of such rows, atomic or not. */
void push_gm_write(AccessList& out, const Instr& instr, const Operand& d, int64_t len, int64_t count, int64_t stride);

}  // namespace isa
}  // namespace tla
#endif  // TILELANG_ASCEND_ISA_ATOMIC_H_
