/*
 * What every instruction of an unrolled execution depends on (tilelang_ascend/analysis/dependence/trace.py): for each
 * column, the latest earlier instance that conflicts with it.
 */
#ifndef TLA_ANALYSIS_TRACE_NEEDS_H_
#define TLA_ANALYSIS_TRACE_NEEDS_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace tla {

/*! \brief A version nobody can tell. */
constexpr int64_t kUnknownVersion = std::numeric_limits<int64_t>::min();
/*! \brief The level of what is needed in the same iteration of all common loops. */
constexpr int64_t kSameIteration = -1;

/*! \brief One instance of an instruction, in the order of the trace. */
struct TnInstance {
  int64_t node;
  int64_t column;
  int64_t position;
};

/*! \brief One dependence, sorted by its second instruction. */
struct TnDependence {
  int64_t src;
  int64_t dst;
  int64_t src_form;  //!< which of the versions of an instance of `src` counts; -1: none
  int64_t dst_form;
  int64_t depth;  //!< loops around both
  int64_t same_iteration;
};

struct TnTrace {
  const TnInstance* instances;
  int64_t num_instances;
  const int64_t* versions;  //!< of each instance, `num_forms` of them
  int64_t num_forms;
  const int64_t* iterations;  //!< of each instance, `max_depth` of them
  int64_t max_depth;
  const TnDependence* dependences;
  int64_t num_dependences;
  const int64_t* carried;  //!< of each dependence and level: may a later iteration conflict?
  int64_t num_nodes;
};

/*! \brief A need of one instance. */
struct TnNeed {
  int64_t column;
  int64_t position;
  int64_t dependence;
  int64_t level;  //!< the common loop that carries it
  int64_t at;     //!< position of the instance that has it
};

/*! \brief The needs of all instances, one behind the other, and the end of those of each. */
struct TnNeeds {
  std::vector<TnNeed> needs;
  std::vector<int64_t> ends;
};

TnNeeds trace_needs(const TnTrace& trace);

}  // namespace tla

#endif  // TLA_ANALYSIS_TRACE_NEEDS_H_
