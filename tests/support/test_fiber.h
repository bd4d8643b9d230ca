// A bare context with a body, for tests of the layers below the scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sys/mman.h>
#include <utility>

#include "fiber/context.h"
#include "fiber/sanitizer.h"

namespace weft::rt::test {

/// Runs `body(transfer)` on a stack of its own; resume() and yield() pass a pointer across. When the
/// body returns, resume() returns null, and the fiber must not be resumed again.
class fiber {
 public:
  using body_type = std::function<void(void*)>;

  explicit fiber(body_type body, std::size_t less_top = 0) : body_(std::move(body)) {
    memory_ = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    tools_.attach(memory_, memory_ + kBytes);
    own_ = new_context(memory_ + kBytes - less_top);
    instance() = this;
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
    tools_.detach();
    asan_unpoison(memory_, kBytes);
    munmap(memory_, kBytes);
  }

  void* resume(void* transfer) {
    instance() = this;
    resumer_tools_.adopt_thread();
    tsan_release(&instance());
    tsan_release(&own_);  // whoever resumes a fiber is ordered before what it does next …
    resumer_tools_.leave(tools_);
    tools_.become();
    void* answer = weft_switch(&resumer_, &own_, transfer, entry);
    resumer_tools_.arrive();
    tsan_acquire(&resumer_);
    return answer;
  }

  void* yield(void* transfer) {
    fiber_tools to = resumer_tools_;  // read before the release: the resumer writes it
    tools_.leave(to);
    tsan_release(&resumer_);  // … and the other way round
    to.become();
    void* answer = weft_switch(&own_, &resumer_, transfer, nullptr);
    tools_.arrive();
    tsan_acquire(&own_);
    return answer;
  }

  bool finished() const { return finished_; }
  context* own() { return &own_; }
  context* resumer() { return &resumer_; }
  std::byte* lo() const { return memory_; }
  std::byte* hi() const { return memory_ + kBytes; }

  // What it begins with. Not instrumented: it returns to another stack than the one that the tools
  // have been told of.
  WEFT_NO_TSAN WEFT_NO_ASAN static departure entry(void* transfer) {
    tsan_acquire(&instance());
    fiber* self = instance();
    self->tools_.arrive();
    tsan_acquire(&self->own_);
    self->body_(transfer);
    self->finished_ = true;
    self->tools_.leave_for_good(self->resumer_tools_);
    tsan_release(&self->resumer_);
    self->resumer_tools_.become();
    return {&self->resumer_, nullptr};
  }

 private:
  static constexpr std::size_t kBytes = 256 * 1024;

  static fiber*& instance() {  // whose first entry it is; tests start fibers one at a time
    static fiber* current = nullptr;
    return current;
  }

  body_type body_;
  std::byte* memory_ = nullptr;
  context own_;
  context resumer_;
  fiber_tools tools_;
  fiber_tools resumer_tools_;
  bool finished_ = false;
};

}  // namespace weft::rt::test
