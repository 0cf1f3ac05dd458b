/* Texts of programs (formats of `printf`): the stream carries 64-bit codes of them (docs/ir.md section 4). */
#ifndef TLA_MACHINE_TEXTS_H_
#define TLA_MACHINE_TEXTS_H_

#include <cstdint>
#include <string>

namespace tla {

/*! \brief Code of a text: its FNV-1a fingerprint. Keeps the text for the life of the process; thread-safe. */
int64_t text_code(const char* text);

/*! \brief The text behind a code, null when no program of this process has it. */
const std::string* find_text(int64_t code);

}  // namespace tla

#endif  // TLA_MACHINE_TEXTS_H_
