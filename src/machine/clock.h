/* Vector clocks: what the pipe of a core knows to be complete. */
#ifndef TLA_MACHINE_CLOCK_H_
#define TLA_MACHINE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipes.h"

namespace tla {

/*! \brief Slots for one core in a full clock; one more than kNumSlots so that agents are a shift away. */
constexpr int kSlotsPerCore = 8;

/*! \brief One pipe of one core, as a number. */
inline uint32_t agent_of(int core, int slot) { return static_cast<uint32_t>(core * kSlotsPerCore + slot); }

/*! \brief The n-th item a pipe executed (n >= 1). */
struct Epoch {
  uint32_t agent = 0;
  uint32_t time = 0;
};

/*! \brief Time of every agent of the machine, indexed by agent. Immutable once shared. */
using FullClock = std::vector<uint32_t>;
using SharedClock = std::shared_ptr<const FullClock>;

/*!
 * \brief Clock of one pipe. The pipes of its own core are stored in place; knowledge about other cores changes only
 * when cores synchronise, and is shared between clocks.
 */
class Clock {
 public:
  uint32_t local[kSlotsPerCore] = {};
  SharedClock remote;

  bool knows(int my_core, Epoch e) const {
    if (static_cast<int>(e.agent / kSlotsPerCore) == my_core) return e.time <= local[e.agent % kSlotsPerCore];
    return remote && e.time <= (*remote)[e.agent];
  }
  /*! \brief Learn what another pipe of the same core knows. */
  void join(const Clock& other) {
    for (int i = 0; i < kSlotsPerCore; ++i) local[i] = std::max(local[i], other.local[i]);
    if (other.remote && other.remote != remote) remote = merged(remote, *other.remote);
  }
  /*! \brief Learn what another core published. */
  void join(int my_core, const SharedClock& published) {
    if (!published || published == remote) return;
    remote = merged(remote, *published);
    for (int i = 0; i < kSlotsPerCore; ++i) local[i] = std::max(local[i], (*remote)[agent_of(my_core, i)]);
  }
  /*! \brief Everything this clock knows, in the form other cores can join. */
  SharedClock publish(int my_core, size_t num_agents) const {
    FullClock full = remote ? *remote : FullClock(num_agents, 0);
    for (int i = 0; i < kSlotsPerCore; ++i) {
      uint32_t& t = full[agent_of(my_core, i)];
      t = std::max(t, local[i]);
    }
    return std::make_shared<const FullClock>(std::move(full));
  }

  /*! \brief Element-wise maximum. */
  static SharedClock merged(const SharedClock& a, const FullClock& b) {
    if (!a) return std::make_shared<const FullClock>(b);
    FullClock out = *a;
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], b[i]);
    return std::make_shared<const FullClock>(std::move(out));
  }
};

}  // namespace tla

#endif  // TLA_MACHINE_CLOCK_H_
