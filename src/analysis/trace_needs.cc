#include "trace_needs.h"

#include <algorithm>
#include <cstddef>

namespace tla {
namespace {

class Finder {
 public:
  explicit Finder(const TnTrace& trace) : trace_(trace), groups_(trace.num_nodes), incoming_(trace.num_nodes + 1, 0) {
    for (int64_t d = 0; d < trace.num_dependences; ++d) ++incoming_[trace.dependences[d].dst + 1];
    for (int64_t node = 0; node < trace.num_nodes; ++node) incoming_[node + 1] += incoming_[node];
    int64_t columns = 0;
    for (int64_t i = 0; i < trace.num_instances; ++i) columns = std::max(columns, trace.instances[i].column + 1);
    need_of_.assign(columns, -1);
  }

  TnNeeds run() {
    TnNeeds found;
    found.ends.reserve(trace_.num_instances);
    for (int64_t i = 0; i < trace_.num_instances; ++i) {
      first_ = found.needs.size();
      const int64_t node = trace_.instances[i].node;
      for (int64_t d = incoming_[node]; d < incoming_[node + 1]; ++d) look(i, d, found.needs);
      for (size_t n = first_; n < found.needs.size(); ++n) need_of_[found.needs[n].column] = -1;
      found.ends.push_back(static_cast<int64_t>(found.needs.size()));
      remember(i);
    }
    return found;
  }

 private:
  /*! \brief Instances of one instruction in one column, of the same versions. */
  struct Group {
    int64_t column;
    const int64_t* versions;
    std::vector<int64_t> instances;
  };

  const int64_t* versions(int64_t i) const { return trace_.versions + i * trace_.num_forms; }
  const int64_t* iterations(int64_t i) const { return trace_.iterations + i * trace_.max_depth; }

  void remember(int64_t i) {
    const TnInstance& instance = trace_.instances[i];
    std::vector<Group>& groups = groups_[instance.node];
    const int64_t* own = versions(i);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.column == instance.column && std::equal(own, own + trace_.num_forms, g.versions);
    });
    if (group == groups.end()) group = groups.insert(group, {instance.column, own, {}});
    group->instances.push_back(i);
  }

  /*! \brief Adds what dependence `d` demands of instance `i`. */
  void look(int64_t i, int64_t d, std::vector<TnNeed>& needs) {
    const TnDependence& dependence = trace_.dependences[d];
    const int64_t mine = dependence.dst_form < 0 ? kUnknownVersion : versions(i)[dependence.dst_form];
    for (const Group& group : groups_[dependence.src]) {
      if (mine != kUnknownVersion) {
        const int64_t theirs = group.versions[dependence.src_form];
        if (theirs != kUnknownVersion && theirs != mine) continue;
      }
      const int64_t known = need_of_[group.column];
      const int64_t floor = known < 0 ? 0 : needs[known].position;
      for (auto other = group.instances.rbegin(); other != group.instances.rend(); ++other) {
        const int64_t position = trace_.instances[*other].position;
        if (position <= floor) break;
        const int64_t level = first_difference(*other, i, dependence.depth);
        if (!conflicts(d, level)) continue;
        const TnNeed need{group.column, position, d, level, trace_.instances[i].position};
        if (known < 0) {
          need_of_[group.column] = static_cast<int64_t>(needs.size());
          needs.push_back(need);
        } else {
          needs[known] = need;
        }
        break;
      }
    }
  }

  bool conflicts(int64_t d, int64_t level) const {
    if (level == kSameIteration) return trace_.dependences[d].same_iteration != 0;
    return trace_.carried[d * trace_.max_depth + level] != 0;
  }

  /*! \brief Outermost of `depth` common loops in which two instances are in different iterations. */
  int64_t first_difference(int64_t a, int64_t b, int64_t depth) const {
    const int64_t *x = iterations(a), *y = iterations(b);
    for (int64_t level = 0; level < depth; ++level) {
      if (x[level] != y[level]) return level;
    }
    return kSameIteration;
  }

  const TnTrace& trace_;
  std::vector<std::vector<Group>> groups_;  // by instruction
  std::vector<int64_t> incoming_;           // by instruction: its first dependence, and the end of them
  std::vector<int64_t> need_of_;            // by column: the need of the instance being looked at, -1: none
  size_t first_ = 0;
};

}  // namespace

TnNeeds trace_needs(const TnTrace& trace) { return Finder(trace).run(); }

}  // namespace tla
