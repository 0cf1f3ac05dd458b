/*
 * One simulated core: its pipes, flags and memories.
 *
 * The program of the core runs on a fiber and plays the scalar pipe: it issues instructions to the queues of the pipes.
 * A pipe is *eager* (executes as soon as its flags allow) or *lazy* (executes only when somebody waits for it). Compute
 * pipes are eager; in the adversarial schedule transfer pipes are lazy, so a missing wait shows as wrong data.
 */
#ifndef TLA_MACHINE_CORE_H_
#define TLA_MACHINE_CORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "fiber.h"
#include "hazard.h"
#include "instr.h"
#include "op_info.h"
#include "queue.h"
#include "race.h"
#include "recorder.h"
#include "repeats.h"

namespace tla {

struct GmTensor;

class Machine;

/*! \brief Output a device keeps for one core (doc: printing of the tilelang port for this device, 1 MB a core). */
constexpr size_t kOutputBytes = 1u << 20;

/*! \brief Why the program of a core does not go on. */
enum class BlockReason : uint8_t { kNone, kFlag, kCrossFlag, kBarrier, kStopped };

class Core final : public ExecContext {
 public:
  Core(Machine& machine, int index, bool aic, int block, int sub_block, CoreMemory& memory);
  ~Core() override;

  // ---- issue: called by the program, on the fiber
  /*! \brief Number of a tile of the program for operand words: 1, 2, …; the same one for the same bytes without a name.
   */
  int32_t declare_tile(int32_t space, int64_t base, int64_t bytes, int64_t versions, int64_t elements,
                       const char* name);
  int64_t issue(int32_t op, int32_t line, int32_t n, const int64_t* args);

  /*! \brief A program that may issue nothing for long gives the machine a chance to end it. */
  void breathe();

  /*! \brief The program has divided an integer by zero in `line`: the quotient is an undefined scalar. */
  void divides_by_zero(int32_t line);
  /*!
   * \brief The program holds an undefined scalar and does something with it, or ends: that is a finding. Only an
   * element of a tile may take it (the scalar form of element-wise work computes padding, too), which is undefined from
   * then on.
   */
  void report_scalar();

  // ---- scheduling: called by the machine
  /*! \brief Execute the queue of `slot` until its item number `position` (0 = head) is done. False when stuck. */
  bool force_item(int slot, size_t position);
  /*! \brief Execute what is queued on every pipe, as far as flags allow; pipes in the order given. */
  void drain(const std::vector<int>& order);
  /*! \brief Reports about flags that are still up and waits that were never satisfied. */
  void report_leftovers();
  /*! \brief One line about what the core is blocked on. */
  std::string describe_block() const;
  /*! \brief The instruction the program is blocked on. */
  Site block_site() const { return site(blocking_, kS); }
  /*! \brief True when the blocked program could go on now. */
  bool can_resume();
  bool deadlocked() const { return blocked != BlockReason::kNone && blocked != BlockReason::kStopped; }
  /*! \brief Deliver one count of a cross-core flag. `clock` is what the setters knew. */
  void deliver(int id, const SharedClock& clock, Site site);

  /*! \brief "AIC 3", "AIV 7": the index is the one `get_block_idx` returns on that core. */
  std::string name() const { return (aic ? "AIC " : "AIV ") + std::to_string(block_idx()); }
  Site site(const Instr& instr, int slot) const {
    return {instr.op, instr.line, static_cast<int16_t>(index), static_cast<int8_t>(slot), instr.order};
  }
  /*! \brief The instruction behind an epoch of this core. */
  Site site_at(int slot, uint32_t time) const;

  // ---- ExecContext
  CoreMemory& memory_of(int8_t holder) override { return holder_of(holder)->mem; }
  uint8_t* gm_shadow(int64_t address) override;
  void mark_written(int64_t address, int64_t bytes, bool update) override;
  bool mark_unwritten(int64_t address, int64_t bytes) override;
  bool unwritten_shadow(int64_t address, int64_t bytes, uint8_t* shadow) override;
  void report_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len, const char* where) override;
  void hold_undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len) override;
  void report_invalid(const Instr& instr, const char* why) override;
  void print(const std::string& text) override;
  bool at_line_start() const override { return output.empty() || output.back() == '\n'; }
  void trap(const Instr& instr) override;

  const int index;  //!< in the machine
  const bool aic;
  const int block;      //!< block the core works for
  const int sub_block;  //!< 0, or 0/1 for the two vector cores of a block
  std::unique_ptr<Fiber> fiber;
  BlockReason blocked = BlockReason::kNone;
  int blocked_id = 0;  //!< kCrossFlag: flag id
  PipeQueue queue[kNumSlots];
  int pending_cross_sets = 0;
  /*! \brief At the end of iteration `k` of `loop`, which runs to `end` (`LoopRecorder`). */
  void next_iteration(int32_t loop, int64_t k, int64_t end, int32_t period) {
    if (repeats_) loop_recorder_.next(loop, k, end, period, record);
  }
  /*! \brief What the core has done is all it does: `record` may be replayed from now on. */
  void end_record() { loop_recorder_.end(record); }
  /*! \brief Whether the program is in an iteration that need only say what it reaches of GM. */
  bool counting() const { return loop_recorder_.counting(); }
  /*! \brief Bytes of a memory of this core or, in a kernel with both kinds of core, of one of the other kind it has a
   * path to. */
  int64_t capacity_in_block(int space) const {
    const int64_t own = chip.capacity(space, aic);
    const bool path = aic ? space == UB && chip.has("l0c_to_ub_interval_cycles")
                          : space == L1 && chip.has("ub_to_l1_interval_cycles");
    return own == 0 && mix_ && path ? chip.capacity(space, !aic) : own;
  }

  CoreRecord record;
  std::string output;       //!< what the program printed, at most `kOutputBytes`
  int64_t lost_output = 0;  //!< bytes beyond that

 private:
  struct Flag {
    bool up = false;
    Clock set_clock;
    Site set_site, wait_site;
    Epoch wait_epoch;  // last wait; time 0: none yet
  };
  struct CrossCount {
    SharedClock clock;
    Site site;
  };

  // issue, by kind
  bool valid(const Instr& instr);
  void record_stream(const Instr& instr, const OpInfo& info);
  void record_time(const Instr& instr, const OpInfo& info);
  uint32_t record_accesses(const Instr& instr, const OpInfo& info);
  static bool touches_gm(const Instr& instr, const OpInfo& info);
  bool describe_sync(const Instr& instr, TimeKey& d) const;
  void describe_exec(const Instr& instr, const OpInfo& info, TimeKey& d, Cost& c);
  int64_t time_only(const Instr& instr, const OpInfo& info);
  void issue_flag(const Instr& instr, ItemKind kind);
  void issue_barrier(const Instr& instr);
  void issue_cross_set(const Instr& instr);
  void cross_wait(const Instr& instr);
  void enqueue(int slot, const Item& item);
  void stop();
  void undefine_element(const Instr& instr);

  // execution
  bool execute(int slot, const Item& item, const SharedClock& fence);
  bool execute_head(int slot);
  int64_t run(int slot, const Instr& instr);
  void set_flag(int slot, const Item& item);
  bool wait_flag(int slot, const Item& item);
  void cross_set(int slot, const Item& item);
  template <typename Stop>
  void advance(int slot, Stop stop);
  void settle();
  bool force_flag(int source, const Flag& flag);
  bool all_empty() const;
  void join_all_pipes();
  void wait_here(BlockReason reason, const Instr& instr);

  // checks
  /*! \brief The core that has the memories `holder` names, null if there is none. */
  Core* holder_of(int8_t holder);
  Hazard undefined(const Instr& instr, uint8_t space, int64_t offset, int64_t len, const char* where) const;
  bool check_accesses(const Instr& instr, int slot);
  bool check_memory(const Access& a, const Instr& instr, int slot);
  /*! \brief In which way bytes [lo, hi) lie outside of the tile of an access, empty if they do not. */
  std::string outside_of_tile(const Access& a, int64_t lo, int64_t hi, int slot) const;
  void take_over(const Access& a);
  /*! \brief The blocks of an access to memory of this core belong to a tile from now on. */
  void take_over(const Access& a, uint16_t id);
  /*! \brief After an instruction: what it only read belongs to the tiles it belonged to. */
  void give_back();
  void find_accesses(const OpImpl& impl, const Instr& instr);
  bool prime_accesses();
  void prime(int space, int64_t end);
  bool check_global(const Access& a, int64_t lo, int64_t hi, const Instr& instr, int slot);
  void check_races(const Access& a, const Instr& instr, const Accessor& who, bool look = false);
  /*! \brief After an instruction: what it wrote again before an earlier write was complete conflicts if it changed. */
  void check_rewritten(const Instr& instr, int slot);
  Epoch tick(int slot, const Instr& instr);
  void complete(int slot, const Instr& instr);
  Clock finished_clock(int slot) const;
  void fault(Check check, std::string message, const Instr& instr, int slot, Site other = {}, int subtype = 0);

  Flag& flag(int event, int id) { return flags_[static_cast<size_t>(event * num_ids_ + id)]; }
  int block_idx() const { return mix_ && !aic ? block * 2 + sub_block : block; }
  bool eager(int slot) const { return (lazy_ >> slot & 1) == 0; }

  Machine& m_;
  const bool mix_;
  const uint32_t slots_;
  const uint32_t lazy_;
  const int num_ids_;
  const bool simulate_;  // false: time only, nothing executes
  const bool repeats_;   // iterations that repeat others need not be issued
  const bool clocks_;    // vector clocks are needed
  const bool need_accesses_;
  uint32_t busy_ = 0;     // pipes whose head item is executing: they must not be entered again
  uint32_t waiting_ = 0;  // eager pipes with items in their queue
  uint32_t issued_ = 0;
  LoopRecorder loop_recorder_;
  int32_t divided_by_zero_ = -1;  // line of the last integer division by zero: its result may be the undefined bytes
  std::unique_ptr<Hazard> undefined_scalar_;  // the finding, once something happens to the scalar
  AtomicOp atomic_op_ = kAtomicNone;
  uint8_t atomic_dtype_ = 0;
  Instr blocking_;
  std::vector<Flag> flags_;
  std::vector<std::vector<CrossCount>> counters_;  // by cross-core flag id, oldest first
  Clock clock_[kNumSlots];
  uint32_t time_[kNumSlots] = {};
  SharedClock joined_fence_[kNumSlots];
  SharedClock fence_;                   // what waits for other cores told the scalar pipe
  std::vector<Site> sites_[kNumSlots];  // by time - 1
  std::unique_ptr<RaceShadow> race_[kNumSpaces];
  int64_t primed_[kNumSpaces] = {};  // bytes of each memory that hold the fresh pattern or data
  AccessList accesses_;
  /*! \brief Bytes of a tensor that an instruction writes while an earlier write of them may not be complete. */
  struct Rewritten {
    GmTensor* tensor;
    Access access;
    Rewrite what;
    std::vector<uint8_t> before;
  };
  std::vector<Rewritten> rewritten_;
  std::vector<Tile> tiles_;                   // number - 1
  static constexpr int64_t kOwnedBytes = 32;  //!< tiles start and end at multiples of this
  /*! \brief A block of memory that an instruction of another tile reads. */
  struct Borrowed {
    uint8_t space;
    uint16_t tile;  //!< its `id`
    int64_t block;
    uint8_t shadow[kOwnedBytes];
  };
  std::vector<Borrowed> borrowed_;
  std::vector<uint16_t>
      owner_[kNumSpaces];  // of each block of a memory whose tiles overlap: the tile that touched it last
};

}  // namespace tla

#endif  // TLA_MACHINE_CORE_H_
