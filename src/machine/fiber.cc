#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace tla {
namespace {
constexpr size_t kGuardBytes = 4096;
// Generous: emitted programs keep everything on the machine's memories, but host code under them may log or convert.
constexpr size_t kStackBytes = size_t{1} << 20;
}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  stack_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  if (stack_ == MAP_FAILED) throw std::runtime_error("cannot map the stack of a simulated core");
  mprotect(stack_, kGuardBytes, PROT_NONE);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = static_cast<char*>(stack_) + kGuardBytes;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::trampoline), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(static_cast<uint64_t>(self) >> 32));
}

Fiber::~Fiber() { munmap(stack_, kGuardBytes + kStackBytes); }

void Fiber::resume() { swapcontext(&outside_, &inside_); }

void Fiber::suspend() { swapcontext(&inside_, &outside_); }

void Fiber::trampoline(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(static_cast<uint64_t>(high) << 32 | low));
  self->body_();
  self->finished_ = true;
  self->suspend();
}

}  // namespace tla
