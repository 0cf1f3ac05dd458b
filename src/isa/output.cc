/*!
 * \file output.cc
 * \brief printf, dump_tensor, trap (pipe S): what a running kernel tells its user.
 */
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>

#include "../machine/texts.h"
#include "access.h"
#include "cost.h"
#include "dispatch.h"
#include "impls.h"
#include "lanes.h"

namespace tla {
namespace isa {
namespace {

/*! \brief One value by a conversion such as `%-5.2f` or `%ld`. Without `l` an integer is one of 32 bits. */
std::string convert_value(std::string spec, int64_t word) {
  const char kind = spec.back();
  char out[512];  // a %f of the largest float has 310 characters
  if (kind == 'f' || kind == 'F') {
    std::snprintf(out, sizeof(out), spec.c_str(), float_arg(word));
    return out;
  }
  const bool wide = spec.find('l') != std::string::npos;
  const bool is_signed = kind == 'd' || kind == 'i';
  if (!wide)
    word = is_signed ? static_cast<int64_t>(static_cast<int32_t>(word))
                     : static_cast<int64_t>(static_cast<uint32_t>(word));
  spec.erase(std::remove(spec.begin(), spec.end(), 'l'), spec.end());
  spec.insert(spec.size() - 1, "ll");
  std::snprintf(out, sizeof(out), spec.c_str(), static_cast<long long>(word));
  return out;
}

/*! \brief `format` with its conversions replaced by the words that follow; the count is the one the table checked. */
std::string formatted(const std::string& format, const int64_t* words, int count) {
  std::string out;
  int next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const size_t end = format.find_first_of("diuxXfF%", i + 1);
    if (end == std::string::npos) return out + format.substr(i);
    if (format[end] == '%') {
      out += '%';
    } else if (next < count) {
      out += convert_value(format.substr(i, end - i + 1), words[next++]);
    }
    i = end;
  }
  return out;
}

int64_t exec_printf(ExecContext& ctx, const Instr& instr) {
  const std::string* format = find_text(instr.args[0]);
  ctx.print(format != nullptr ? formatted(*format, instr.args + 1, instr.nargs - 1) : "<unknown text>\n");
  return 0;
}

/*! \brief Shortest decimal text that reads back as the same number. */
template <class T>
std::string number_text(T value) {
  char out[64];
  return std::string(out, std::to_chars(out, out + sizeof(out), value).ptr);
}

int64_t exec_dump(ExecContext& ctx, const Instr& instr) {
  const Operand s = instr.operand(ARG_dump_tensor_s);
  const int64_t count = instr.args[ARG_dump_tensor_count];
  std::string text;
  if (ctx.at_line_start()) text += "dump " + std::to_string(instr.args[ARG_dump_tensor_desc]) + " ";
  text += "[";
  const uint8_t* shadow = ctx.shadow(s);
  with_type_or_report(AllTypes{}, s.dtype, ctx, instr, [&](auto t) {
    using T = decltype(t);
    const uint8_t* data = ctx.data(s);
    for (int64_t i = 0; i < count; ++i, data += sizeof(T)) {
      T value;
      std::memcpy(&value, data, sizeof(T));
      if (i != 0) text += ", ";
      if (shadow != nullptr && any_undefined(shadow + i * static_cast<int64_t>(sizeof(T)), sizeof(T))) {
        text += "undefined";  // looking at memory that was never written is no mistake
      } else if constexpr (std::is_integral<T>::value) {
        text += number_text(static_cast<int64_t>(value));
      } else {
        text += number_text(static_cast<float>(load(value)));
      }
    }
  });
  ctx.print(text + "]\n");
  return 0;
}

int64_t exec_trap(ExecContext& ctx, const Instr& instr) {
  ctx.trap(instr);
  return 0;
}

void dump_accesses(const ExecContext*, const Instr& instr, const ChipParams&, AccessList& out) {
  const Operand s = instr.operand(ARG_dump_tensor_s);
  push_access(out, s, false, s.space == L0C ? 64 : kBlockBytes, 0, size_of(s) * instr.args[ARG_dump_tensor_count]);
}

void no_accesses(const ExecContext*, const Instr&, const ChipParams&, AccessList&) {}

constexpr OpImpl kPrintf = {exec_printf, no_accesses, fixed_cost, nullptr};
constexpr ImplRow kRows[] = {
    {OP_printf_0, kPrintf},
    {OP_printf_1, kPrintf},
    {OP_printf_2, kPrintf},
    {OP_printf_3, kPrintf},
    {OP_printf_4, kPrintf},
    {OP_dump_tensor, {exec_dump, dump_accesses, fixed_cost, nullptr}},
    {OP_trap, {exec_trap, no_accesses, fixed_cost, nullptr}},
};

}  // namespace

ImplRows output_rows() { return rows_of(kRows); }

}  // namespace isa
}  // namespace tla
