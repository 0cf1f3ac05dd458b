/* Global memory: the registered tensors, and where an address lies in them. */
#ifndef TLA_MACHINE_GM_H_
#define TLA_MACHINE_GM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "race.h"

namespace tla {

/*! \brief One tensor in GM. */
struct GmTensor {
  int64_t address = 0;
  int64_t bytes = 0;
  std::string name;
  bool writable = true;
  bool scratch = false;           //!< starts undefined, and undefined values may pass through it
  bool fresh = false;             //!< an output of which it is noted what is written
  bool bypass_l2 = false;         //!< its traffic goes past L2
  int32_t index = 0;              //!< position in the list the caller gave
  std::vector<uint8_t> shadow;    //!< scratch only, with initcheck: the undefined bits of each byte
  std::vector<uint64_t> written;  //!< fresh only, with initcheck: one bit for each byte, 1 = somebody wrote it
  std::vector<uint8_t> writes;    //!< with count_writes, not of scratch: how often each byte was written, 255 at most
  std::unique_ptr<RaceShadow> race;  //!< made at the first access; never for read-only tensors

  /*! \brief Note whether bytes [lo, hi), relative to the tensor, are written. Fresh tensors with initcheck only. */
  void set_written(int64_t lo, int64_t hi, bool value);
  /*! \brief Count a write of bytes [lo, hi), relative to the tensor. With count_writes only. */
  void count_write(int64_t lo, int64_t hi);
  bool is_written(int64_t at) const { return (written[static_cast<size_t>(at / 64)] >> (at % 64) & 1) != 0; }
  /*! \brief True when bytes [lo, hi) all are. */
  bool all_written(int64_t lo, int64_t hi) const;
};

/*! \brief Unwritten bytes of a fresh tensor: where they begin and end, and how many of those in between there are. */
struct UnwrittenRange {
  std::string tensor;
  int64_t lo = 0, hi = 0, bytes = 0;
};

/*! \brief All registered tensors, by address. */
class GmMap {
 public:
  /*! \brief `tensors` must not overlap. Throws std::runtime_error when they do. Those of an earlier launch keep what is
   * undefined. */
  void init(std::vector<GmTensor> tensors, bool with_shadow, bool count_writes);
  /*! \brief Tensor that contains `address`, or null. */
  GmTensor* find(int64_t address);
  /*! \brief Last tensor that starts at or below `address`, or null; for messages about addresses outside. */
  const GmTensor* below(int64_t address) const;
  /*! \brief Operand word with the address written as tensor index (bits 47..40) and offset (bits 39..0). */
  int64_t normalise(int64_t word);
  /*! \brief Bytes of fresh tensors that nobody wrote; empty without initcheck. */
  std::vector<UnwrittenRange> unwritten() const;
  /*! \brief Give these bytes the pattern of fresh memory, so that they never look like a result. */
  void poison_unwritten();
  /*! \brief The tensors, for the launch that follows. */
  std::vector<GmTensor> release();
  size_t size() const { return tensors_.size(); }
  /*! \brief Tensors by ascending address. */
  std::vector<GmTensor>& tensors() { return tensors_; }

 private:
  std::vector<GmTensor> tensors_;
  GmTensor* last_ = nullptr;  // consecutive instructions mostly stay in one tensor
};

}  // namespace tla

#endif  // TLA_MACHINE_GM_H_
