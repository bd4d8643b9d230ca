// weft::wait_group and weft::latch over their core. [WG-1]
#include <weft/latch.h>
#include <weft/panic.h>
#include <weft/wait_group.h>

#include "base/fatal.h"
#include "sync/context_node.h"
#include "sync/count_gate.h"

namespace weft {

using rt::count_gate;
static_assert(sizeof(count_gate) == sizeof(wait_group));
static_assert(alignof(count_gate) == alignof(wait_group));
static_assert(sizeof(count_gate) == sizeof(latch) && alignof(count_gate) == alignof(latch));

namespace {

count_gate& gate_of(wait_group* self) { return *reinterpret_cast<count_gate*>(self); }
count_gate& gate_of(const latch* self) {
  return *reinterpret_cast<count_gate*>(const_cast<latch*>(self));
}

}  // namespace

void wait_group::add(int n) {
  if (!rt::add(gate_of(this), n)) [[unlikely]] {
    throw panic_error("sync: negative WaitGroup counter");
  }
}

void wait_group::wait() {
  rt::wait(gate_of(this), rt::wait_reason::wait_group_wait);
  asm volatile("");  // no tail call: reports of deadlocks shall name this function
}

bool wait_group::wait_within(detail::limit l) {
  return rt::wait_until(gate_of(this), rt::wait_reason::wait_group_wait, rt::limit_of(l));
}

void latch::count_down(std::ptrdiff_t n) {
  if (n < 0 || n > max() || !rt::add(gate_of(this), -static_cast<std::int32_t>(n))) {
    rt::fatal("latch: counted down below zero", rt::user_fault);
  }
}

bool latch::try_wait() const noexcept { return gate_of(this).zero(); }

void latch::wait() const { rt::wait(gate_of(this), rt::wait_reason::latch_wait); }

bool latch::wait_within(detail::limit l) const {
  return rt::wait_until(gate_of(this), rt::wait_reason::latch_wait, rt::limit_of(l));
}

}  // namespace weft
