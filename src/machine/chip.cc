#include "chip.h"

#include <tvm/ffi/extra/json.h>

#include <stdexcept>

#include "instr.h"
#include "pipes.h"

namespace tla {

namespace json = tvm::ffi::json;

const char* pipe_name(int pipe) {
  static const char* const kNames[kNumPipes] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "?", "?", "?", "FIX"};
  return pipe >= 0 && pipe < kNumPipes ? kNames[pipe] : "?";
}

int pipe_code(const std::string& name) {
  for (int p = 0; p < kNumPipes; ++p) {
    if (name == pipe_name(p) && name != "?") return p;
  }
  return -1;
}

double ChipParams::at(const std::string& key) const {
  auto it = values.find(key);
  if (it == values.end()) throw std::runtime_error("chip data of " + name + " lack the key '" + key + "'");
  return it->second;
}

int64_t ChipParams::capacity(int space, bool aic) const {
  switch (space) {
    case L1:
      return aic ? l1_bytes : 0;
    case L0A:
      return aic ? l0a_bytes : 0;
    case L0B:
      return aic ? l0b_bytes : 0;
    case L0C:
      return aic ? l0c_bytes : 0;
    case BT:
      return aic ? bt_bytes : 0;
    case FB:
      return aic ? fb_bytes : 0;
    case UB:
      return aic ? 0 : ub_bytes;
    default:
      return 0;
  }
}

namespace {

std::string text_of(const json::Value& v) { return std::string(v.cast<tvm::ffi::String>()); }

void read_entry(ChipParams& chip, const std::string& key, const json::Value& value) {
  if (key == "name") {
    chip.name = text_of(value);
  } else if (key == "generation") {
    chip.generation = text_of(value);
  } else if (key == "assumed_keys") {
    for (const json::Value& k : value.cast<json::Array>()) chip.assumed.insert(text_of(k));
  } else if (auto number = value.try_cast<double>()) {
    chip.values[key] = *number;
  }
}

}  // namespace

ChipParams parse_chip(const std::string& text) {
  tvm::ffi::String error;
  json::Value root = json::Parse(text, &error);
  if (error.size() != 0) throw std::runtime_error("chip data are no JSON: " + std::string(error));
  auto object = root.try_cast<json::Object>();
  if (!object) throw std::runtime_error("chip data must be one JSON object");
  ChipParams c;
  for (const auto& [key, value] : *object) read_entry(c, text_of(key), value);
  if (c.name.empty() || c.generation.empty()) throw std::runtime_error("chip data lack the key 'name' or 'generation'");

  auto integer = [&c](const char* key) { return static_cast<int64_t>(c.at(key)); };
  c.num_aic = static_cast<int32_t>(integer("num_aic"));
  c.num_aiv = static_cast<int32_t>(integer("num_aiv"));
  c.clock_hz = c.at("clock_hz");
  c.l1_bytes = integer("l1_bytes");
  c.l0a_bytes = integer("l0a_bytes");
  c.l0b_bytes = integer("l0b_bytes");
  c.l0c_bytes = integer("l0c_bytes");
  c.ub_bytes = integer("ub_bytes");
  c.bt_bytes = integer("bt_bytes");
  c.fb_bytes = integer("fb_bytes");
  c.num_event_ids = static_cast<int32_t>(integer("num_event_ids"));
  c.num_cross_core_flags = static_cast<int32_t>(integer("num_cross_core_flags"));
  c.cross_core_flag_depth = static_cast<int32_t>(integer("cross_core_flag_depth"));
  for (int slot = 0; slot < kNumSlots; ++slot) {
    // The scalar pipe executes one instruction at a time; there is nothing to state about it.
    c.ordered_completion[pipe_of_slot(slot)] =
        slot == kS || c.at(std::string("ordered_completion_") + slot_name(slot)) != 0;
  }
  c.issue_cycles = c.at("issue_cycles");
  c.flag_cycles = c.at("flag_cycles");
  c.cross_core_flag_cycles = c.at("cross_core_flag_cycles");
  c.launch_seconds = c.at("launch_seconds");
  c.queue_depth = static_cast<int32_t>(integer("queue_depth"));
  c.hbm_bytes_per_second = c.at("hbm_bytes_per_second");
  c.l2_read_bytes_per_second = c.at("l2_read_bytes_per_second");
  c.l2_write_bytes_per_second = c.at("l2_write_bytes_per_second");
  c.l2_bytes = integer("l2_bytes");
  c.l2_line_bytes = static_cast<int32_t>(integer("l2_line_bytes"));
  c.gm_edge_bytes = static_cast<int32_t>(integer("gm_edge_bytes"));
  c.costs = make_cost_tables(c);
  return c;
}

}  // namespace tla
