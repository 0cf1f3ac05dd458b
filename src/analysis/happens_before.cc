#include "happens_before.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

namespace tla {
namespace {

/*! \brief Positions by column: half as wide as elsewhere, since copies and comparisons of clocks are all the work there
 * is. */
using Clock = std::vector<int32_t>;

/*! \brief Clocks of one simulation, all of the same size. Those nobody has any more are used again. */
class Pool {
 public:
  struct Node {
    Clock clock;
    Pool* pool;
    Node* next;
    int32_t users;
  };
  Node* take() {
    if (free_ == nullptr) {
      nodes_.emplace_back();
      nodes_.back().pool = this;
      return &nodes_.back();
    }
    return std::exchange(free_, free_->next);
  }
  void give(Node* node) {
    node->next = free_;
    free_ = node;
  }

 private:
  std::deque<Node> nodes_;
  Node* free_ = nullptr;
};

/*! \brief A clock that copies of a state share; never changed in place. Of one thread: its users are counted without a
 * lock. */
class Row {
 public:
  Row() = default;
  Row(std::nullptr_t) {}
  Row(Pool& pool, const Clock& clock) : node_(pool.take()) {
    node_->clock = clock;
    node_->users = 1;
  }
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
  const Clock& operator*() const { return node_->clock; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Row& other) const { return node_ == other.node_; }

 private:
  Pool::Node* node_ = nullptr;
};

/*! \brief Clocks and raised flags at one point of the trace. Not `alive` after a jump. */
struct State {
  std::vector<Row> clock;                   // by queue
  std::vector<Row> flags;                   // by key; null: not set
  std::vector<std::vector<Row>> open_sets;  // by key: sets of cross-core flags that nobody has waited for
  std::vector<int64_t> waits;               // by key: waits of cross-core flags
  bool alive = true;
};

class Simulation {
 public:
  Simulation(const HbTrace& trace, const HbOptions& options)
      : trace_(trace), options_(options), queue_of_(trace.queue_of) {
    const size_t queues = trace.queue_core.size();
    columns_of_.resize(queues);
    for (size_t c = 0; c < queue_of_.size(); ++c) columns_of_[queue_of_[c]].push_back(c);
    make_wait_columns();
    const Row zero = make_row(Clock(queue_of_.size(), 0));
    news_.resize(queue_of_.size());
    state_.clock.assign(queues, zero);
    state_.flags.resize(trace.num_keys);
    state_.open_sets.resize(trace.num_keys);
    state_.waits.assign(trace.num_keys, 0);
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
      if (state_.flags[key] || !state_.open_sets[key].empty()) found_.leftover.push_back(key);
    }
    return found_;
  }

 private:
  Row make_row(const Clock& clock) { return Row(pool_, clock); }

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
    for (int64_t i = 0; i < trace_.num_events; ++i) {
      const HbEvent& e = trace_.events[i];
      const HbKind kind = static_cast<HbKind>(e.kind);
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
        counters_.emplace_back(column, e.key);
      }
    }
    find_shared();
    counted_.assign(queue_of_.size(), -1);
    for (const auto& [column, key] : counters_) counted_[column] = key;
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
        return saved_.push_back({state_, last_});
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
      if ((*row)[need.column] >= need.position) continue;
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
        state_.clock[e.queue] = completed(*row, e.queue, e.position - 1);
    }
    last_[e.column] = static_cast<int32_t>(e.position);
  }

  /*! \brief `clock` plus: all of `queue` up to `position` is complete. */
  Row completed(const Clock& clock, int64_t queue, int64_t position) {
    news_ = clock;
    for (const int64_t column : columns_of_[queue]) news_[column] = all_of(column, position);
    return make_row(news_);
  }

  Row snapshot(int64_t queue) { return completed(*state_.clock[queue], queue, now_); }

  void learn(int64_t queue, const Clock& news) {
    news_ = *state_.clock[queue];
    for (size_t c = 0; c < news_.size(); ++c) news_[c] = std::max(news_[c], news[c]);
    state_.clock[queue] = make_row(news_);
  }

  void broken(HbBroken what, int64_t key) {
    found_.broken.push_back(what);
    found_.broken.push_back(key);
  }

  void set(const HbEvent& e) {
    if (state_.flags[e.key]) broken(kSetTwice, e.key);
    const int64_t column = wait_column_[e.key];
    if (waited_[e.key] >= 0 && waited_[e.key] > (*state_.clock[e.queue])[column]) found_.unsafe.push_back(e.key);
    state_.flags[e.key] = snapshot(e.queue);
  }

  void wait(const HbEvent& e) {
    const Row news = std::exchange(state_.flags[e.key], nullptr);
    if (!news) return broken(kWaitWithoutSet, e.key);
    ++now_;
    waited_[e.key] = now_;
    last_[wait_column_[e.key]] = static_cast<int32_t>(now_);
    // A wait of the scalar pipe teaches only the scalar pipe: nobody documents that issue order alone is an ordering.
    learn(e.queue, *news);
  }

  void barrier_all(const HbEvent& e) {
    const std::vector<int64_t> queues = queues_of(e.core);
    Clock merged = *state_.clock[queues.front()];
    for (const int64_t queue : queues) {
      const Clock& clock = *state_.clock[queue];
      for (size_t c = 0; c < merged.size(); ++c) merged[c] = std::max(merged[c], clock[c]);
    }
    for (const int64_t queue : queues) {
      for (const int64_t column : columns_of_[queue]) merged[column] = all_of(column, now_);
    }
    const Row row = make_row(merged);
    for (const int64_t queue : queues) state_.clock[queue] = row;
  }

  void cross_set(const HbEvent& e) {
    const int64_t column = wait_column_[e.key];
    const int64_t unknown = column < 0 ? 0 : state_.waits[e.key] - (*state_.clock[e.queue])[column];
    const int64_t ahead = static_cast<int64_t>(state_.open_sets[e.key].size()) + unknown;
    if (ahead >= (shared_[e.key] ? 1 : options_.credit)) found_.unsafe.push_back(e.key);
    state_.open_sets[e.key].push_back(snapshot(e.queue));
  }

  void cross_wait(const HbEvent& e) {
    std::vector<Row>& sets = state_.open_sets[e.key];
    if (sets.empty()) return broken(kCrossWaitWithoutSet, e.key);
    ++state_.waits[e.key];
    const Row news = sets.front();
    sets.erase(sets.begin());
    for (const int64_t queue : queues_of(e.core)) learn(queue, *news);
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
      for (const auto& [column, key] : s.counters_) {
        const int64_t more = s.state_.waits[key] - waits[key];
        if (more != 0) more_.emplace_back(column, more);
        lowers_ |= more < 0;
      }
    }
    /*! \brief True if a clock may become less. */
    bool lowers() const { return lowers_; }
    Clock operator()(const Row& row) const {
      Clock clock = *row;
      for (const size_t c : changed_) {
        if (clock[c] >= before_[c]) clock[c] = static_cast<int32_t>(now_);
      }
      for (const auto& [column, more] : more_) clock[column] += static_cast<int32_t>(more);
      return clock;
    }

   private:
    const Clock& before_;
    int64_t now_;
    std::vector<size_t> changed_;
    std::vector<std::pair<int64_t, int64_t>> more_;
    bool lowers_ = false;
  };

  void other_arm() {
    auto [other, last] = std::move(saved_.back());
    saved_.back() = {std::move(state_), last_};
    state_.waits = other.waits;
    const Lifter lift(*this, last, other.waits);
    for (Row& row : other.clock) row = make_row(lift(row));
    for (Row& row : other.flags) {
      if (row) row = make_row(lift(row));
    }
    for (auto& sets : other.open_sets) {
      for (Row& row : sets) row = make_row(lift(row));
    }
    state_ = std::move(other);
  }

  void join() {
    const auto [other, last] = std::move(saved_.back());
    saved_.pop_back();
    if (!state_.alive || !other.alive) {
      if (!state_.alive) state_ = other;
      return;
    }
    const Lifter lift(*this, last, other.waits);
    const auto meet = [&lift, this](const Row& a, const Row& b) {
      if (a == b && !lift.lowers()) return a;
      Clock low = lift(b);
      for (size_t c = 0; c < low.size(); ++c) low[c] = std::min(low[c], (*a)[c]);
      return make_row(low);
    };
    bool differ = false;
    for (size_t key = 0; key < state_.flags.size(); ++key) {
      Row& here = state_.flags[key];
      const Row& there = other.flags[key];
      differ |= !here != !there;
      here = here && there ? meet(here, there) : Row();
      std::vector<Row>& sets = state_.open_sets[key];
      const std::vector<Row>& sets_there = other.open_sets[key];
      differ |= sets.size() != sets_there.size();
      sets.resize(std::min(sets.size(), sets_there.size()));
      for (size_t i = 0; i < sets.size(); ++i) sets[i] = meet(sets[i], sets_there[i]);
    }
    if (differ) broken(kPathsDiffer, -1);
    for (size_t queue = 0; queue < state_.clock.size(); ++queue)
      state_.clock[queue] = meet(state_.clock[queue], other.clock[queue]);
  }

  const HbTrace& trace_;
  const HbOptions& options_;
  HbFindings found_;
  Pool pool_;   // in front of all that holds its rows
  Clock news_;  // a clock in the making
  std::vector<int64_t> queue_of_;
  std::vector<std::vector<int64_t>> columns_of_;
  std::vector<int64_t> wait_column_;
  std::vector<bool> shared_;
  State state_;
  Clock last_;  // latest instance of each column
  int64_t now_ = 0;
  std::vector<std::pair<State, Clock>> saved_;
  std::vector<int64_t> waited_;
  std::vector<std::pair<int64_t, int64_t>> counters_;  // columns that count waits, and their keys
  std::vector<int64_t> counted_;                       // by column: the key whose waits it counts, -1 for others
  std::vector<std::pair<int64_t, int64_t>> missing_;
};

}  // namespace

HbFindings happens_before(const HbTrace& trace, const HbOptions& options) { return Simulation(trace, options).run(); }

}  // namespace tla
