// Between contexts and std::stop_token.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <utility>

#include <weft/context.h>
#include <weft/latch.h>

namespace weft {

using std::nostopstate;
using std::nostopstate_t;
using std::stop_callback;
using std::stop_source;
using std::stop_token;

namespace detail {
// Takes a std::stop_callback off its token: calls reset(callback).
WEFT_EXPORT void take_off(void (*reset)(void*), void* callback) noexcept;

// What the token calls. Whoever asks it to stop, and whoever takes the callback off meanwhile, holds up a
// thread until it has returned: it must not park. But it may have to give up its processor for a while,
// so that a goroutine which takes it off waits as a goroutine first: with the only processor, waiting as
// a thread, it would wait for ever.
class stop_to_cancel {
 public:
  struct progress {
    // A callback that cancels says so before anybody can hear of it; one that comes too late to cancel
    // does nothing that could take long, and need not be noticed. So no order of its own is needed: who
    // is called after the cancellation sees it by what that orders, and waits for `over` then.
    // not the seam: it publishes nothing.
    std::atomic<bool> begun{false};
    latch over{1};
  };

  stop_to_cancel(const context& c, std::shared_ptr<progress> p) noexcept
      : context_(c), progress_(std::move(p)) {}
  void operator()() const noexcept {
    progress_->begun.store(true, std::memory_order_relaxed);  // order: relaxed, see progress
    context_cancel_briefly(context_access::node(context_));
    progress_->over.count_down();
  }

 private:
  context context_;
  std::shared_ptr<progress> progress_;
};
}  // namespace detail

/// A context that is cancelled, too, when `token` is asked to stop. The callback is taken off the token
/// when the context ends. Values of contexts that end with it, as nobody has them any more, are destroyed in a
/// goroutine, not by whoever asks.
[[nodiscard]] inline cancellable<cancel_func> with_stop_token(const context& parent,
                                                              std::stop_token token) {
  auto [inner, cancel] = with_cancel(parent);
  auto progress = std::make_shared<detail::stop_to_cancel::progress>();
  auto bridge = std::make_shared<std::stop_callback<detail::stop_to_cancel>>(
      std::move(token), detail::stop_to_cancel(inner, progress));  // may call it
  after_func(inner, [bridge, progress]() mutable {
    if (progress->begun.load(std::memory_order_relaxed)) {  // order: relaxed, see progress
      progress->over.wait();
    }
    detail::take_off([](void* b) { static_cast<decltype(bridge)*>(b)->reset(); }, &bridge);
  });
  return {inner, cancel};
}

namespace detail {
struct shared_stop_source final : context_attachment {
  std::stop_source source;
};
}  // namespace detail

/// A token that is asked to stop, in a goroutine of its own, when ctx is cancelled. All tokens of one
/// context are the same; those of one that is never cancelled are empty.
[[nodiscard]] inline std::stop_token stop_token_of(const context& ctx) {
  detail::context_node* const node = context_access::node(ctx);
  if (!detail::context_ends(node)) {
    return {};
  }
  auto* shared = static_cast<detail::shared_stop_source*>(detail::context_attached(node));
  if (shared == nullptr) {
    auto made = std::make_unique<detail::shared_stop_source>();
    const stop_func call_off =
        after_func(ctx, [source = made->source]() mutable { source.request_stop(); });
    detail::shared_stop_source* const mine = made.release();
    shared = static_cast<detail::shared_stop_source*>(detail::context_attach(node, mine));
    if (shared != mine) {
      call_off();
    }
  }
  return shared->source.get_token();
}

}  // namespace weft
