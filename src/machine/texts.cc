#include "texts.h"

#include <mutex>
#include <unordered_map>

namespace tla {
namespace {

struct Texts {
  std::mutex mutex;
  std::unordered_map<int64_t, std::string> by_code;  // nodes stay where they are
};

Texts& texts() {
  static Texts instance;
  return instance;
}

}  // namespace

int64_t text_code(const char* text) {
  uint64_t value = 0xCBF29CE484222325ull;
  for (const char* p = text; *p != 0; ++p) value = (value ^ static_cast<unsigned char>(*p)) * 0x100000001B3ull;
  const auto code = static_cast<int64_t>(value);
  Texts& t = texts();
  const std::lock_guard<std::mutex> lock(t.mutex);
  t.by_code.emplace(code, text);
  return code;
}

const std::string* find_text(int64_t code) {
  Texts& t = texts();
  const std::lock_guard<std::mutex> lock(t.mutex);
  const auto it = t.by_code.find(code);
  return it == t.by_code.end() ? nullptr : &it->second;
}

}  // namespace tla
