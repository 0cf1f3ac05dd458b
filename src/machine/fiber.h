/* Fibers: one program counter and stack per simulated core, switched by hand inside one thread. */
#ifndef TLA_MACHINE_FIBER_H_
#define TLA_MACHINE_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace tla {

/*!
 * \brief A function that can stop in the middle and be resumed later.
 *
 * The stack is mapped on demand with a guard page below it. Destroying a fiber that has not finished drops its stack
 * without unwinding: whatever runs on a fiber must hold no resource across `suspend`.
 */
class Fiber {
 public:
  /*! \brief `body` must not let an exception escape. */
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /*! \brief Run until the fiber suspends or finishes. Called from outside of the fiber. */
  void resume();
  /*! \brief Go back to the caller of `resume`. Called from inside of the fiber. */
  void suspend();
  bool finished() const { return finished_; }

 private:
  static void trampoline(unsigned low, unsigned high);

  std::function<void()> body_;
  ucontext_t inside_{}, outside_{};
  void* stack_ = nullptr;
  bool finished_ = false;
};

}  // namespace tla

#endif  // TLA_MACHINE_FIBER_H_
