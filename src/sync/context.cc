// Contexts: a tree of nodes, each of which keeps its parent. [CX-1] to [CX-6]
//
//   background ◄─ cancel node ◄─ value node ◄─ cancel node …      (counted references, to the root)
//                      └─ hooks: children, waiters, after_func    (gmp/cancel_source.h, not counted)
//
// How a cancellation goes through the tree, and when nodes die: cancel_tree.h. A callback keeps its node, too.
// The deadline's timer keeps it likewise: by hand, as the timer is a member of the node.
//
// Go: context/context.go
#include <string>

#include <weft/go.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "sched/staying.h"
#include "sched/timers.h"
#include "sync/cancel_tree.h"
#include "sync/context_node.h"

namespace weft::detail {

namespace {

enum class context_errc : int { canceled = 1, deadline_exceeded };

class context_category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "context"; }
  std::string message(int code) const override {
    return code == static_cast<int>(context_errc::canceled) ? "context canceled"
                                                            : "context deadline exceeded";
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    return std::make_error_condition(code == static_cast<int>(context_errc::canceled)
                                         ? std::errc::operation_canceled
                                         : std::errc::timed_out);
  }
};

std::error_code error_of(context_errc e) {
  static const context_category& category = *new context_category;  // outlives statics
  return {static_cast<int>(e), category};
}

// Shared by all contexts that were cancelled before anybody asked for done.
channel* closed_channel_of_all() {
  static channel* const c = [] {
    channel* made = chan_make(element_of<unit>, 0);
    chan_close(made);
    return made;
  }();
  return c;
}

struct cancel_node;

}  // namespace

struct context_node {
  context_node(context_node* p, cancel_node* c, std::int64_t d) noexcept
      : parent(p), canceller(c), deadline(d) {
    if (p != nullptr) {
      context_retain(p);
    }
  }
  context_node(const context_node&) = delete;
  context_node& operator=(const context_node&) = delete;
  virtual ~context_node() = default;

  rt::atomic<std::uint32_t> references{1};
  context_node* const parent;  // counted
  cancel_node* const
      canceller;  // the nearest that can be cancelled: itself or an ancestor; or null
  const std::int64_t deadline;
  const void* key = nullptr;
  void* value = nullptr;
};

namespace {

cancel_node* canceller_of(context_node* n) { return n == nullptr ? nullptr : n->canceller; }

struct value_node final : context_node {
  value_node(context_node* p, const void* k, void* v, void (*d)(void*) noexcept) noexcept
      : context_node(p, canceller_of(p), context_deadline(p)), destroy(d) {
    key = k;
    value = v;
  }
  ~value_node() override { destroy(value); }
  void (*const destroy)(void*) noexcept;
};

struct cancel_node final : context_node, rt::tree_links<cancel_node> {
  cancel_node(context_node* p, std::int64_t d) noexcept
      : context_node(p, this, d), tree_links(this, canceller_of(p)) {}
  ~cancel_node() override {
    rt::leave_parent(this);
    // order: relaxed, nobody else is left
    if (channel* c = done.load(WEFT_ORDER(CX0, relaxed)); c != nullptr) {
      chan_release(c);
    }
    delete attached.load(WEFT_ORDER(CX0, relaxed));  // order: relaxed, as above
  }

  void close_done();
  static void release(cancel_node* n) { context_release(n); }
  static void touched() {}
  static void in_hooks(bool) {}

  rt::atomic<channel*> done{nullptr};  // counted; made when asked for
  context_errc error{};                // with cause: written once, before the source is cancelled
  std::exception_ptr cause;
  timer of_deadline;  // keeps the node by a reference of its own while it is pending
  bool has_timer = false;
  rt::atomic<context_attachment*> attached{nullptr};  // owned
};

void cancel_node::close_done() {
  channel* d = nullptr;
  chan_retain(closed_channel_of_all());
  // order: CX1 release and acquire of the channel that somebody has made
  if (!done.compare_exchange_strong(d, closed_channel_of_all(), WEFT_ORDER(CX1, release),
                                    WEFT_ORDER(CX1, acquire))) {
    chan_release(closed_channel_of_all());
    chan_close(d);
  }
}

// The goroutine of the deadline leaves the timer alone: it may be on its way into the node still.
enum class by : std::uint8_t { timer, others };

// What is returned has to be released, with n: cancel_tree.h.
[[nodiscard]] cancel_node* cancel_all(cancel_node* n, context_errc error,
                                      const std::exception_ptr& cause, by how) {
  const auto record = [&](cancel_node* m) {
    m->error = m == n ? error : m->above->error;
    m->cause = m == n ? cause : m->above->cause;
  };
  const auto ended = [&](cancel_node* m) {
    if ((m != n || how != by::timer) && m->has_timer && m->of_deadline.stop()) {
      context_release(m);  // the timer's, not the last: CX6
    }
  };
  return rt::cancel_all(n, record, ended);
}

void cancel_tree(cancel_node* n, context_errc error, const std::exception_ptr& cause,
                 by how = by::others) {
  rt::release_all(n, cancel_all(n, error, cause, how));
}

// Nobody keeps n any more; nor, maybe, those above it.
void end_of(context_node* n) {
  do {
    context_node* parent = n->parent;
    delete n;
    n = parent;
  } while (n != nullptr && rt::tree_drop(n));
}

void keep_until_cancelled(cancel_node* n) {
  if (n->above != nullptr || n->deadline != rt::kNever) {
    rt::pin_node(n);
  }
}

void hear_of_parent(cancel_node* n) {
  if (!rt::follow_parent(n)) {
    context_error(n->above);  // until the parent's error can be read
    cancel_tree(n, n->above->error, n->above->cause);
  }
}

}  // namespace

void context_retain(context_node* n) noexcept { rt::tree_retain(n); }

void context_release(context_node* n) noexcept {
  if (n != nullptr && rt::tree_drop(n)) {
    end_of(n);
  }
}

context_node* context_with_cancel(context_node* parent) {
  auto* n = new cancel_node(parent, context_deadline(parent));
  hear_of_parent(n);
  return n;
}

context_node* context_with_deadline(context_node* parent, std::int64_t deadline,
                                    std::exception_ptr cause) {
  if (context_deadline(parent) <= deadline) {
    return context_with_cancel(parent);
  }
  auto* n = new cancel_node(parent, deadline);
  if (context_error(parent)) {  // the first reason counts, whatever the time
    hear_of_parent(n);
    return n;
  }
  const std::int64_t now = rt::nanotime();
  if (deadline <= now) {
    cancel_tree(n, context_errc::deadline_exceeded, cause);
    return n;
  }
  if (deadline != rt::kNever) {
    n->has_timer = true;
    context_retain(n);
    try {
      n->of_deadline = after_func(std::chrono::nanoseconds(deadline - now), [n, cause] {
        cancel_tree(n, context_errc::deadline_exceeded, cause, by::timer);
        context_release(n);
      });
    } catch (...) {
      context_release(n);
      context_release(n);
      throw;
    }
  }
  hear_of_parent(n);
  return n;
}

context_node* context_without_cancel(context_node* parent) {
  return new context_node(parent, nullptr, rt::kNever);
}

context_node* context_with_value(context_node* parent, const void* key, void* value,
                                 void (*destroy)(void*) noexcept) {
  try {
    return new value_node(parent, key, value, destroy);
  } catch (...) {
    destroy(value);
    throw;
  }
}

void context_cancel(context_node* n, std::exception_ptr cause) noexcept {
  cancel_tree(n->canceller, context_errc::canceled, cause);
}

void context_cancel_briefly(context_node* n) noexcept {
  cancel_node* const c = n->canceller;
  cancel_node* dead = rt::drop_all(c, cancel_all(c, context_errc::canceled, nullptr, by::others));
  if (dead != nullptr) {
    go([next = dead]() mutable {
      while (cancel_node* m = next) {
        next = m->next;
        end_of(m);
      }
    });
  }
}

channel* context_done(context_node* n) {
  cancel_node* c = canceller_of(n);
  if (c == nullptr) {
    return nullptr;
  }
  // order: CX1 acquire of the channel; pairs with whoever put it there
  channel* d = c->done.load(WEFT_ORDER(CX1, acquire));
  if (d == nullptr) {
    channel* made = chan_make(element_of<unit>, 0);
    // order: CX1 release publishes the channel, failure acquires the other one
    if (c->done.compare_exchange_strong(d, made, WEFT_ORDER(CX1, release),
                                        WEFT_ORDER(CX1, acquire))) {
      d = made;
      keep_until_cancelled(c);
    } else {
      chan_release(made);
    }
  }
  chan_retain(d);
  return d;
}

std::error_code context_error(context_node* n) {
  cancel_node* c = canceller_of(n);
  if (c == nullptr || !c->source.cancelled()) {
    return {};
  }
  while (!rt::is_finished(c)) {
    rt::yield_staying();  // the canceller is about to close done
  }
  return error_of(c->error);
}

std::exception_ptr context_cause(context_node* n) {
  const std::error_code error = context_error(n);
  if (!error) {
    return nullptr;
  }
  const std::exception_ptr& cause = n->canceller->cause;
  return cause != nullptr ? cause : std::make_exception_ptr(std::system_error(error));
}

std::int64_t context_deadline(const context_node* n) noexcept {
  return n == nullptr ? rt::kNever : n->deadline;
}

const void* context_value(const context_node* n, const void* key) noexcept {
  while (n != nullptr && n->key != key) {
    n = n->parent;
  }
  return n == nullptr ? nullptr : n->value;
}

context_attachment::~context_attachment() = default;

bool context_ends(context_node* n) noexcept { return canceller_of(n) != nullptr; }

context_attachment* context_attached(context_node* n) noexcept {
  // order: CX5 acquire of what somebody has attached
  return canceller_of(n)->attached.load(WEFT_ORDER(CX5, acquire));
}

context_attachment* context_attach(context_node* n, context_attachment* mine) noexcept {
  context_attachment* there = nullptr;
  // order: CX5 release publishes the object, failure acquires the other one
  if (canceller_of(n)->attached.compare_exchange_strong(there, mine, WEFT_ORDER(CX5, release),
                                                        WEFT_ORDER(CX5, acquire))) {
    return mine;
  }
  delete mine;
  return there;
}

// --- after_func ------------------------------------------------------------------------------

struct context_callback : rt::cancel_hook {
  context_callback(cancel_node* n, void* c, void (*f)(void*), void (*d)(void*) noexcept) noexcept
      : node(n), closure(c), call(f), destroy(d) {}
  context_callback(const context_callback&) = delete;
  context_callback& operator=(const context_callback&) = delete;
  ~context_callback() {
    destroy(closure);
    if (node != nullptr) {
      context_release(node);
    }
  }

  rt::atomic<std::uint32_t> references{2};  // the handle's; the list's, then the goroutine's
  rt::atomic<std::uint32_t> stopped{0};     // of the background: nobody else decides
  cancel_node* const node;                  // counted
  void* const closure;
  void (*const call)(void*);
  void (*const destroy)(void*) noexcept;
};

void callback_retain(context_callback* c) noexcept {
  // order: relaxed, the caller has one already
  c->references.fetch_add(1, WEFT_ORDER(CX0, relaxed));
}

void callback_release(context_callback* c) noexcept {
  // order: CX4 acq_rel: whoever destroys the callable sees what was done with it
  if (c->references.fetch_sub(1, WEFT_ORDER(CX4, acq_rel)) == 1) {
    delete c;
  }
}

namespace {

void start_callback(rt::cancel_hook* h) {
  go([list = callback_ref(static_cast<context_callback*>(h))] {
    list.get()->call(list.get()->closure);
  });
}

}  // namespace

context_callback* context_after(context_node* n, void* closure, void (*call)(void*),
                                void (*destroy)(void*) noexcept) {
  cancel_node* node = canceller_of(n);
  context_callback* c = nullptr;
  try {
    c = new context_callback(node, closure, call, destroy);
  } catch (...) {
    destroy(closure);
    throw;
  }
  c->fire = start_callback;
  if (node == nullptr) {
    callback_release(c);  // never called
    return c;
  }
  context_retain(node);
  if (!node->source.add(*c)) {
    start_callback(c);
  }
  return c;
}

bool context_after_stop(context_callback* c) noexcept {
  if (c->node == nullptr) {
    return c->stopped.exchange(1, WEFT_ORDER(CX0, relaxed)) == 0;  // order: relaxed, a flag
  }
  if (!c->node->source.remove(*c)) {
    return false;
  }
  callback_release(c);
  return true;
}

}  // namespace weft::detail

namespace weft::rt {

cancel_source* source_of(detail::context_node* node) noexcept {
  detail::cancel_node* c = detail::canceller_of(node);
  return c == nullptr ? nullptr : &c->source;
}

}  // namespace weft::rt
