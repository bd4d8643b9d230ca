// Waiting with a context: what it adds to a channel's operations and to sleep.
#include <algorithm>

#include "chan/channel.h"
#include "sched/timed.h"
#include "sync/context_node.h"

namespace weft::detail {

namespace {

bool publish_nothing(rt::waiter*, void*) { return true; }

// Until the limit. There is nobody else who could end it.
void wait_for_limit(rt::wait_reason reason, const rt::wait_limit& limit) {
  rt::waiter w;
  if (limit.none()) {
    rt::block(w, publish_nothing, nullptr, &w, reason);
  }
  rt::wait_claim claim;
  w.claim = &claim;
  rt::block_until(w, publish_nothing, nullptr, &w, reason, limit);
}

chan_end end_of(rt::chan_status s) {
  return s == rt::chan_status::done     ? chan_end::done
         : s == rt::chan_status::closed ? chan_end::closed
                                        : chan_end::blocked;
}

}  // namespace

chan_end chan_send_with(channel* c, void* value, const context& ctx) {
  if (c == nullptr) {
    wait_for_limit(rt::wait_reason::chan_send_nil, rt::limit_of(ctx));
    return chan_end::blocked;
  }
  return end_of(rt::chan_send_until(c, value, rt::limit_of(ctx)));
}

chan_end chan_recv_with(channel* c, void* to, const context& ctx) {
  if (c == nullptr) {
    wait_for_limit(rt::wait_reason::chan_receive_nil, rt::limit_of(ctx));
    return chan_end::blocked;
  }
  return end_of(rt::chan_recv_until(c, to, rt::limit_of(ctx)));
}

std::error_code context_sleep(context_node* n, std::int64_t deadline) {
  // A sleeper means that something will still happen, however late: it has a timer.
  const std::int64_t until = std::min(deadline, rt::kNever - 1);
  wait_for_limit(rt::wait_reason::sleep, {until, rt::source_of(n)});
  return context_error(n);
}

}  // namespace weft::detail
