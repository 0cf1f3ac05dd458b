/*
 * Chip parameters of the machine: what `ChipSpec.to_json()` (tilelang_ascend/arch) hands over, as one flat JSON object.
 *
 * Each member below names its key. A missing key is an error.
 */
#ifndef TLA_MACHINE_CHIP_H_
#define TLA_MACHINE_CHIP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tla {

/*! \brief Pipes; the values are the codes of the instruction table. */
enum PipeCode : uint8_t {
  kPipeS = 0,
  kPipeV = 1,
  kPipeM = 2,
  kPipeMTE1 = 3,
  kPipeMTE2 = 4,
  kPipeMTE3 = 5,
  kPipeALL = 6,
  kPipeFIX = 10,
  kNumPipes = 11  //!< size of arrays indexed by pipe code (codes 7..9 are unused)
};

/*! \brief Name of a pipe code ("?" when unused). */
const char* pipe_name(int pipe);
/*! \brief Pipe code of a name, -1 when there is none. */
int pipe_code(const std::string& name);

/*! \brief Prices of cost classes in the layout src/isa wants; made once per run by `make_cost_tables`. */
struct CostTables;

/*! \brief Parameters of one chip. Sizes in bytes, times in cycles of the core clock unless the name says otherwise. */
struct ChipParams {
  std::string name;        //!< "name": SKU
  std::string generation;  //!< "generation": "c220" or "3510"

  // ---- structure
  int32_t num_aic = 0;    //!< "num_aic"
  int32_t num_aiv = 0;    //!< "num_aiv"
  double clock_hz = 0;    //!< "clock_hz"
  int64_t l1_bytes = 0;   //!< "l1_bytes", and likewise the usable capacity of the other memories of one core
  int64_t l0a_bytes = 0;  //!< "l0a_bytes"
  int64_t l0b_bytes = 0;  //!< "l0b_bytes"
  int64_t l0c_bytes = 0;  //!< "l0c_bytes"
  int64_t ub_bytes = 0;   //!< "ub_bytes"
  int64_t bt_bytes = 0;   //!< "bt_bytes"
  int64_t fb_bytes = 0;   //!< "fb_bytes"

  // ---- synchronisation
  int32_t num_event_ids = 0;          //!< "num_event_ids": legal ids of set_flag/wait_flag are 0 .. n-1
  int32_t num_cross_core_flags = 0;   //!< "num_cross_core_flags"
  int32_t cross_core_flag_depth = 0;  //!< "cross_core_flag_depth": largest value of a cross-core counter
  /*!
   * \brief "ordered_completion_<PIPE>" (0/1) for V, M, MTE1, MTE2, MTE3, FIX: an instruction may rely on earlier
   * ones of its own pipe being complete. 0 means that dependent instructions need a pipe_barrier.
   */
  bool ordered_completion[kNumPipes] = {};

  // ---- time
  double issue_cycles = 0;               //!< "issue_cycles": scalar pipe, per issued instruction
  double flag_cycles = 0;                //!< "flag_cycles": from the end of a set to the end of a wait of the same core
  double cross_core_flag_cycles = 0;     //!< "cross_core_flag_cycles": from set to the end of a wait on another core
  double launch_seconds = 0;             //!< "launch_seconds": of an empty kernel
  int32_t queue_depth = 0;               //!< "queue_depth": instructions waiting in front of one pipe
  double hbm_bytes_per_second = 0;       //!< "hbm_bytes_per_second": whole chip, reads and writes together
  double l2_read_bytes_per_second = 0;   //!< "l2_read_bytes_per_second": whole chip
  double l2_write_bytes_per_second = 0;  //!< "l2_write_bytes_per_second": whole chip
  int64_t l2_bytes = 0;                  //!< "l2_bytes"
  int32_t l2_line_bytes = 0;             //!< "l2_line_bytes"
  int32_t gm_edge_bytes = 0;             //!< "gm_edge_bytes": ends of pieces off it are read from HBM again; 0: none

  // ---- everything else, for src/isa
  std::unordered_map<std::string, double> values;  //!< every numeric key, prices of cost classes included
  std::unordered_set<std::string> assumed;         //!< "assumed_keys": keys whose value is an assumption
  std::shared_ptr<const CostTables> costs;         //!< made by make_cost_tables

  bool has(const std::string& key) const { return values.count(key) != 0; }
  /*! \brief Numeric value of a key. Throws std::runtime_error naming the key when it is missing. */
  double at(const std::string& key) const;
  bool is_assumed(const std::string& key) const { return assumed.count(key) != 0; }
  /*! \brief Capacity in bytes of a memory space (codes of instr.h) on a core of the given type; 0 if it has none. */
  int64_t capacity(int space, bool aic) const;
};

/*! \brief Parse the JSON text. Throws std::runtime_error on bad JSON or a missing key. */
ChipParams parse_chip(const std::string& json);

/*! \brief Provided by src/isa: look up every price once. Throws std::runtime_error when a class has no price. */
std::shared_ptr<const CostTables> make_cost_tables(const ChipParams& chip);

}  // namespace tla

#endif  // TLA_MACHINE_CHIP_H_
