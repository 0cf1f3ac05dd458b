#include "happens_before.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "isa/simd.h"

namespace tla {
namespace {

/*! \brief The greater or the lesser of two clocks, column by column. */
template <bool greater>
struct Combine {
  static TLA_INLINE void run(const int32_t* a, const int32_t* b, int32_t* out, size_t width) {
    TLA_IVDEP
    for (size_t c = 0; c < width; ++c) out[c] = greater ? std::max(a[c], b[c]) : std::min(a[c], b[c]);
  }
};

template <bool greater>
void combine(const int32_t* a, const int32_t* b, int32_t* out, size_t width) {
  isa::simd_run<Combine<greater>>(a, b, out, width);
}

/*! \brief Clocks of one simulation, all of the same width: positions by column, half as wide as elsewhere, since
 * copies and comparisons of clocks are all the work there is. Those nobody has any more are used again. */
class Pool {
 public:
  struct Node {
    std::unique_ptr<int32_t[]> clock;
    Pool* pool;
    Node* next;
    int32_t users;
  };
  void set_width(size_t width) { width_ = width; }
  size_t width() const { return width_; }
  Node* take() {
    if (free_ == nullptr) {
      nodes_.push_back({std::make_unique<int32_t[]>(width_), this, nullptr, 0});
      return &nodes_.back();
    }
    return std::exchange(free_, free_->next);
  }
  void give(Node* node) {
    node->next = free_;
    free_ = node;
  }

 private:
  size_t width_ = 0;
  std::deque<Node> nodes_;
  Node* free_ = nullptr;
};

/*! \brief A clock that copies of a state share; changed only while it is made. Of one thread: its users are counted
 * without a lock. */
class Row {
 public:
  Row() = default;
  /*! \brief A clock in the making; what it holds is not known. */
  explicit Row(Pool& pool) : node_(pool.take()) { node_->users = 1; }
  Row(const Row& other) : node_(other.node_) {
    if (node_ != nullptr) ++node_->users;
  }
  Row(Row&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Row& operator=(Row other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Row() {
    if (node_ != nullptr && --node_->users == 0) node_->pool->give(node_);
  }
  /*! \brief Another clock in the making, which begins like this one. */
  Row copy() const {
    Row row(*node_->pool);
    std::copy_n(clock(), node_->pool->width(), row.clock());
    return row;
  }
  int32_t* clock() const { return node_->clock.get(); }
  int32_t operator[](size_t column) const { return node_->clock[column]; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Row& other) const { return node_ == other.node_; }

 private:
  Pool::Node* node_ = nullptr;
};

/*! \brief Clocks and raised flags at one point of the trace. Not `alive` after a jump. */
struct State {
  std::vector<Row> clock;                   // by queue
  std::vector<Row> flags;                   // by key; null: not set
  std::vector<std::vector<Row>> open_sets;  // by counter: sets of cross-core flags that nobody has waited for
  std::vector<int64_t> waits;               // by counter: waits of cross-core flags
  bool alive = true;
};

using Clock = std::vector<int32_t>;

/*! \brief What a fork leaves for the other path. */
struct Saved {
  State state;
  Clock last;
};

class Simulation {
 public:
  Simulation(const HbTrace& trace, const HbOptions& options)
      : trace_(trace), options_(options), queue_of_(trace.queue_of) {
    const size_t queues = trace.queue_core.size();
    columns_of_.resize(queues);
    for (size_t c = 0; c < queue_of_.size(); ++c) columns_of_[queue_of_[c]].push_back(c);
    make_wait_columns();
    pool_.set_width(queue_of_.size());
    Row zero(pool_);
    std::fill_n(zero.clock(), pool_.width(), 0);
    state_.clock.assign(queues, zero);
    state_.flags.resize(trace.num_keys);
    state_.open_sets.resize(counters_);
    state_.waits.assign(counters_, 0);
    last_.assign(queue_of_.size(), 0);
    waited_.assign(trace.num_keys, -1);
  }

  HbFindings run() {
    for (int64_t i = 0; i < trace_.num_events; ++i) {
      const HbEvent& e = trace_.events[i];
      if (!exists(e)) continue;
      step(e);
      if (options_.first_only && (!found_.uncovered.empty() || !found_.unsafe.empty() || !found_.broken.empty()))
        return found_;
    }
    for (int64_t key = 0; key < trace_.num_keys; ++key) {
      const int64_t counter = counter_of_[key];
      if (state_.flags[key] || (counter >= 0 && !state_.open_sets[counter].empty())) found_.leftover.push_back(key);
    }
    return found_;
  }

 private:
  bool exists(const HbEvent& e) const {
    if (e.owner >= 0 && options_.left_out[e.owner]) return false;
    return !(options_.without_barriers && e.kind == static_cast<int64_t>(HbKind::kBarrier));
  }

  /*!
   * \brief Columns for the waits of flags: whoever sets a flag again must know that its last wait is over. Those of
   * cross-core flags hold how many waits are known to be over: which they are depends on the path, how many are still
   * unknown does not.
   */
  void make_wait_columns() {
    wait_column_.assign(trace_.num_keys, -1);
    counter_of_.assign(trace_.num_keys, -1);
    for (int64_t i = 0; i < trace_.num_events; ++i) {
      const HbEvent& e = trace_.events[i];
      const HbKind kind = static_cast<HbKind>(e.kind);
      if ((kind == HbKind::kCrossSet || kind == HbKind::kCrossWait) && counter_of_[e.key] < 0)
        counter_of_[e.key] = counters_++;
      if ((kind != HbKind::kWait && kind != HbKind::kCrossWait) || wait_column_[e.key] >= 0) continue;
      if (kind == HbKind::kWait && !trace_.forked) {
        wait_column_[e.key] = e.queue;  // without control flow a queue is a column
        continue;
      }
      const int64_t column = static_cast<int64_t>(queue_of_.size());
      wait_column_[e.key] = column;
      if (kind == HbKind::kWait) {
        queue_of_.push_back(e.queue);
        columns_of_[e.queue].push_back(column);
      } else {
        const std::vector<int64_t> queues = queues_of(e.core);
        queue_of_.push_back(queues.front());
        for (const int64_t queue : queues) columns_of_[queue].push_back(column);
        counting_.emplace_back(column, counter_of_[e.key]);
      }
    }
    find_shared();
    counted_.assign(queue_of_.size(), -1);
    for (const auto& [column, counter] : counting_) counted_[column] = counter;
  }

  /*! \brief Cross-core flags that several queues set: which of two such sets comes first is nobody's order. */
  void find_shared() {
    std::vector<int64_t> setter(trace_.num_keys, -1);
    shared_.assign(trace_.num_keys, false);
    for (int64_t i = 0; i < trace_.num_events; ++i) {
      const HbEvent& e = trace_.events[i];
      if (static_cast<HbKind>(e.kind) != HbKind::kCrossSet || !exists(e)) continue;
      if (setter[e.key] >= 0 && setter[e.key] != e.queue) shared_[e.key] = true;
      setter[e.key] = e.queue;
    }
  }

  /*! \brief What somebody knows of a column of whom everything up to `position` is complete. */
  int32_t all_of(int64_t column, int64_t position) const {
    return static_cast<int32_t>(counted_[column] < 0 ? position : state_.waits[counted_[column]]);
  }

  std::vector<int64_t> queues_of(int64_t core) const {
    std::vector<int64_t> queues;
    for (size_t queue = 0; queue < trace_.queue_core.size(); ++queue) {
      if (trace_.queue_core[queue] == core) queues.push_back(static_cast<int64_t>(queue));
    }
    return queues;
  }

  void step(const HbEvent& e) {
    switch (static_cast<HbKind>(e.kind)) {
      case HbKind::kInstr:
        return instruction(e);
      case HbKind::kFork:
        return fork();
      case HbKind::kElse:
        return other_arm();
      case HbKind::kJoin:
        return join();
      case HbKind::kJump:
        state_.alive = false;
        return;
      case HbKind::kSet:
        return set(e);
      case HbKind::kWait:
        return wait(e);
      case HbKind::kBarrier:
        state_.clock[e.queue] = snapshot(e.queue);
        return;
      case HbKind::kBarrierAll:
        return barrier_all(e);
      case HbKind::kCrossSet:
        return cross_set(e);
      case HbKind::kCrossWait:
        return cross_wait(e);
    }
  }

  void instruction(const HbEvent& e) {
    now_ = e.position;
    const Row row = state_.clock[e.queue];
    missing_.clear();  // for each source queue, the latest need that is not met
    for (int64_t n = e.first_need; n < e.end_need; ++n) {
      const HbNeed& need = trace_.needs[n];
      if (row[need.column] >= need.position) continue;
      const int64_t source = queue_of_[need.column];
      auto it = std::find_if(missing_.begin(), missing_.end(), [&](const auto& m) { return m.first == source; });
      if (it == missing_.end()) {
        missing_.emplace_back(source, n);
      } else if (trace_.needs[it->second].position < need.position) {
        it->second = n;
      }
    }
    for (const auto& [source, n] : missing_) {
      found_.uncovered.push_back(n);
      if (options_.assume_barriers && source == e.queue)
        state_.clock[e.queue] = completed(row, e.queue, e.position - 1);
    }
    last_[e.column] = static_cast<int32_t>(e.position);
  }

  /*! \brief `clock` plus: all of `queue` up to `position` is complete. */
  Row completed(const Row& clock, int64_t queue, int64_t position) {
    Row row = clock.copy();
    for (const int64_t column : columns_of_[queue]) row.clock()[column] = all_of(column, position);
    return row;
  }

  Row snapshot(int64_t queue) { return completed(state_.clock[queue], queue, now_); }

  void learn(int64_t queue, const Row& news) {
    Row row(pool_);
    combine<true>(state_.clock[queue].clock(), news.clock(), row.clock(), pool_.width());
    state_.clock[queue] = std::move(row);
  }

  void broken(HbBroken what, int64_t key) {
    found_.broken.push_back(what);
    found_.broken.push_back(key);
  }

  void set(const HbEvent& e) {
    if (state_.flags[e.key]) broken(kSetTwice, e.key);
    const int64_t column = wait_column_[e.key];
    if (waited_[e.key] >= 0 && waited_[e.key] > state_.clock[e.queue][column]) found_.unsafe.push_back(e.key);
    state_.flags[e.key] = snapshot(e.queue);
  }

  void wait(const HbEvent& e) {
    const Row news = std::exchange(state_.flags[e.key], Row());
    if (!news) return broken(kWaitWithoutSet, e.key);
    ++now_;
    waited_[e.key] = now_;
    last_[wait_column_[e.key]] = static_cast<int32_t>(now_);
    // A wait of the scalar pipe teaches only the scalar pipe: nobody documents that issue order alone is an ordering.
    learn(e.queue, news);
  }

  void barrier_all(const HbEvent& e) {
    const std::vector<int64_t> queues = queues_of(e.core);
    Row merged = state_.clock[queues.front()].copy();
    for (const int64_t queue : queues)
      combine<true>(merged.clock(), state_.clock[queue].clock(), merged.clock(), pool_.width());
    for (const int64_t queue : queues) {
      for (const int64_t column : columns_of_[queue]) merged.clock()[column] = all_of(column, now_);
    }
    for (const int64_t queue : queues) state_.clock[queue] = merged;
  }

  void cross_set(const HbEvent& e) {
    const int64_t column = wait_column_[e.key];
    const int64_t counter = counter_of_[e.key];
    const int64_t unknown = column < 0 ? 0 : state_.waits[counter] - state_.clock[e.queue][column];
    const int64_t ahead = static_cast<int64_t>(state_.open_sets[counter].size()) + unknown;
    if (ahead >= (shared_[e.key] ? 1 : options_.credit)) found_.unsafe.push_back(e.key);
    state_.open_sets[counter].push_back(snapshot(e.queue));
  }

  void cross_wait(const HbEvent& e) {
    const int64_t counter = counter_of_[e.key];
    std::vector<Row>& sets = state_.open_sets[counter];
    if (sets.empty()) return broken(kCrossWaitWithoutSet, e.key);
    ++state_.waits[counter];
    const Row news = sets.front();
    sets.erase(sets.begin());
    for (const int64_t queue : queues_of(e.core)) learn(queue, news);
  }

  /*! \brief States are copied into those of earlier forks: memory is there already. */
  void fork() {
    if (depth_ == saved_.size()) saved_.emplace_back();
    Saved& saved = saved_[depth_++];
    saved.state = state_;
    saved.last = last_;
  }

  /*!
   * \brief Lifts clocks to a path that skips the arm just traced, of which nothing exists on that path: who knew all of
   * a column before it, knows all up to here. `waits` of that path: there as many waits stay unknown as were.
   */
  class Lifter {
   public:
    Lifter(const Simulation& s, const Clock& before, const std::vector<int64_t>& waits)
        : before_(before), now_(s.now_) {
      for (size_t c = 0; c < before.size(); ++c) {
        if (before[c] != s.last_[c]) changed_.push_back(c);
      }
      for (const auto& [column, counter] : s.counting_) {
        const int64_t more = s.state_.waits[counter] - waits[counter];
        if (more != 0) more_.emplace_back(column, more);
        lowers_ |= more < 0;
      }
    }
    /*! \brief True if a clock may become less. */
    bool lowers() const { return lowers_; }
    Row operator()(const Row& row) const {
      Row lifted = row.copy();
      for_changed(row.clock(), [&lifted](size_t c, int32_t clock) { lifted.clock()[c] = clock; });
      return lifted;
    }
    /*! \brief What `here` and a lifted `there` both know. */
    Row meet(const Row& here, const Row& there, Pool& pool) const {
      Row low(pool);
      combine<false>(here.clock(), there.clock(), low.clock(), pool.width());
      for_changed(there.clock(), [&](size_t c, int32_t clock) { low.clock()[c] = std::min(here[c], clock); });
      return low;
    }

   private:
    /*! \brief Columns in which a clock is lifted, and to what. */
    template <class F>
    void for_changed(const int32_t* clock, F&& set) const {
      for (const size_t c : changed_) {
        if (clock[c] >= before_[c]) set(c, static_cast<int32_t>(now_));
      }
      for (const auto& [column, more] : more_) set(column, clock[column] + static_cast<int32_t>(more));
    }

    const Clock& before_;
    int64_t now_;
    std::vector<size_t> changed_;
    std::vector<std::pair<int64_t, int64_t>> more_;
    bool lowers_ = false;
  };

  void other_arm() {
    Saved& saved = saved_[depth_ - 1];
    std::swap(saved.state, state_);
    const Lifter lift(*this, saved.last, state_.waits);
    for (Row& row : state_.clock) row = lift(row);
    for (Row& row : state_.flags) {
      if (row) row = lift(row);
    }
    for (auto& sets : state_.open_sets) {
      for (Row& row : sets) row = lift(row);
    }
    saved.last = last_;
  }

  /*!
   * \brief Who goes on knows no more than who left by a jump: behind the loop, at the latest, nobody can tell one from
   * the other.
   */
  void join() {
    const auto& [other, last] = saved_[--depth_];
    const Lifter lift(*this, last, other.waits);
    const auto meet = [&lift, this](Row& here, const Row& there) {
      if (here == there && !lift.lowers()) return;
      here = lift.meet(here, there, pool_);
    };
    bool differ = false;
    for (size_t key = 0; key < state_.flags.size(); ++key) {
      Row& here = state_.flags[key];
      const Row& there = other.flags[key];
      if (here && there) {
        meet(here, there);
      } else if (state_.alive == other.alive) {
        differ |= !here != !there;
        here = Row();
      } else if (other.alive) {
        here = there ? lift(there) : Row();
      }
    }
    for (size_t counter = 0; counter < state_.open_sets.size(); ++counter) {
      std::vector<Row>& sets = state_.open_sets[counter];
      const std::vector<Row>& sets_there = other.open_sets[counter];
      const size_t both = std::min(sets.size(), sets_there.size());
      differ |= state_.alive == other.alive && sets.size() != sets_there.size();
      for (size_t i = 0; i < both; ++i) meet(sets[i], sets_there[i]);
      if (state_.alive == other.alive || other.alive) sets.resize(both);
      if (other.alive && !state_.alive) {
        for (size_t i = both; i < sets_there.size(); ++i) sets.push_back(lift(sets_there[i]));
      }
    }
    if (differ) broken(kPathsDiffer, -1);
    state_.alive |= other.alive;
    for (size_t queue = 0; queue < state_.clock.size(); ++queue) meet(state_.clock[queue], other.clock[queue]);
  }

  const HbTrace& trace_;
  const HbOptions& options_;
  HbFindings found_;
  Pool pool_;  // in front of all that holds its rows
  std::vector<int64_t> queue_of_;
  std::vector<std::vector<int64_t>> columns_of_;
  std::vector<int64_t> wait_column_;
  std::vector<bool> shared_;
  State state_;
  Clock last_;  // latest instance of each column
  int64_t now_ = 0;
  std::vector<Saved> saved_;  // of open forks, `depth_` of them; the rest is memory
  size_t depth_ = 0;
  std::vector<int64_t> waited_;
  std::vector<int64_t> counter_of_;  // by key: the number of a cross-core flag, -1 for others
  int64_t counters_ = 0;
  std::vector<std::pair<int64_t, int64_t>> counting_;  // columns that count waits, and their counters
  std::vector<int64_t> counted_;                       // by column: the counter whose waits it counts, -1 for others
  std::vector<std::pair<int64_t, int64_t>> missing_;
};

}  // namespace

HbFindings happens_before(const HbTrace& trace, const HbOptions& options) { return Simulation(trace, options).run(); }

}  // namespace tla
