/* A long run asks now and then whether it shall go on. */
#ifndef TLA_MACHINE_POLL_H_
#define TLA_MACHINE_POLL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace tla {

class Poll {
 public:
  /*! \brief `ask` throws to end the run. It is called on the stack of the thread, never on that of a fiber. */
  explicit Poll(std::function<void()> ask = {}) : ask_(std::move(ask)) {}

  /*! \brief True when it is time to ask. Cheap: most calls only count. */
  bool due() {
    if ((++calls_ & 255) != 0 || !ask_) return false;
    return std::chrono::steady_clock::now() >= next_;
  }

  void operator()() {
    next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    ask_();
  }

 private:
  std::function<void()> ask_;
  std::chrono::steady_clock::time_point next_{};
  uint32_t calls_ = 0;
};

}  // namespace tla

#endif  // TLA_MACHINE_POLL_H_
