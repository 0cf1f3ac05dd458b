/* Fluid model of shared bandwidth: flows on a resource share its capacity max-min fairly. */
#ifndef TLA_MACHINE_BANDWIDTH_H_
#define TLA_MACHINE_BANDWIDTH_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

namespace tla {

/*!
 * \brief One shared resource (HBM, L2 reads or L2 writes).
 *
 * Flows with the same own limit always have the same rate, so they form a class with one virtual time (bytes moved per
 * flow); a flow ends when the class reaches its mark. Every event costs O(log flows + classes).
 */
class SharedBandwidth {
 public:
  explicit SharedBandwidth(double bytes_per_cycle) : capacity_(bytes_per_cycle) {}

  /*! \brief Start a flow of `bytes` that alone would move at `limit` bytes per cycle. */
  void start(double now, double bytes, double limit, int32_t owner) {
    advance(now);
    Class& c = class_of(limit);
    c.flows.push({c.moved + bytes, owner});
    share();
  }
  /*! \brief Time of the next completion; infinity when there is none. */
  double next() const { return next_; }
  /*! \brief Take the flow that completes at `next()`. Returns its owner. */
  int32_t finish() {
    const double now = next_;
    advance(now);
    Class* done = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (Class& c : classes_) {
      if (c.flows.empty()) continue;
      const double left = c.flows.top().mark - c.moved;
      if (done == nullptr || left < least) {
        done = &c;
        least = left;
      }
    }
    const int32_t owner = done->flows.top().owner;
    done->flows.pop();
    share();
    return owner;
  }

 private:
  struct Flow {
    double mark;
    int32_t owner;
    bool operator<(const Flow& o) const { return mark > o.mark; }  // the queue's top is the smallest mark
  };
  struct Class {
    double limit;
    double moved = 0, rate = 0;
    std::priority_queue<Flow> flows;
  };

  Class& class_of(double limit) {
    for (Class& c : classes_) {
      if (c.limit == limit) return c;
    }
    auto at = std::find_if(classes_.begin(), classes_.end(), [limit](const Class& c) { return c.limit > limit; });
    return *classes_.insert(at, Class{limit, 0, 0, {}});
  }

  void advance(double now) {
    const double dt = now - now_;
    now_ = now;
    if (dt <= 0) return;
    for (Class& c : classes_) c.moved += c.rate * dt;
  }

  void share() {
    size_t left = 0;
    for (const Class& c : classes_) left += c.flows.size();
    double capacity = capacity_;
    next_ = std::numeric_limits<double>::infinity();
    for (Class& c : classes_) {  // ascending limits: who cannot use its share leaves it to the others
      if (c.flows.empty()) {
        c.moved = c.rate = 0;
        continue;
      }
      const auto n = static_cast<double>(c.flows.size());
      c.rate = std::min(c.limit, capacity / static_cast<double>(left));
      capacity -= c.rate * n;
      left -= c.flows.size();
      next_ = std::min(next_, now_ + std::max(0.0, c.flows.top().mark - c.moved) / c.rate);
    }
  }

  double capacity_;
  double now_ = 0;
  double next_ = std::numeric_limits<double>::infinity();
  std::vector<Class> classes_;
};

}  // namespace tla

#endif  // TLA_MACHINE_BANDWIDTH_H_
